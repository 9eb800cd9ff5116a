"""Errors that are meant for the user: their message is all that is shown."""


class UserError(Exception):
    """Something the user can mend; the door prints the message and no traceback."""


class ConfigError(UserError):
    """Every problem of a configuration, one line each: ``where: received X; Y is expected.``"""

    def __init__(self, problems: list[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


class Interrupted(Exception):
    """A signal asked the training to stop; its checkpoint is written."""
