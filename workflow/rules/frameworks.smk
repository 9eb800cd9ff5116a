"""Frameworks that are timed beside TensorFlow: an environment for each, made on demand."""

for FRAMEWORK in FRAMEWORKS.values():

    rule:
        name:
            f"install_{FRAMEWORK.name}"
        input:
            f"envs/{FRAMEWORK.name}.lock",
        output:
            environments.record(FRAMEWORK.name),
        log:
            f"logs/install_framework/{FRAMEWORK.name}.log",
        # A cluster's nodes may reach no package index.
        localrule: True
        conda:
            ENVIRONMENT
        shell:
            parts.installing(locals().get("rule", f"install_{FRAMEWORK.name}"))

    workflow.get_rule(f"install_{FRAMEWORK.name}").docstring = (
        f"Installs {FRAMEWORK.title} into an environment of its own."
    )
