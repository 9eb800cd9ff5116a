"""Requirements that trainings lack for an advice."""

from batchscope.study.advice_needs import TrainingSummary, missing_needs


def test_missing_requirements_have_new_values_and_minutes():
    trained = TrainingSummary([16], seeds=2, rates=1, rate=0.1)
    needs = list(missing_needs(trained, seed_minutes=3.0, rate_minutes=5.0))
    assert [(need.key, need.value) for need in needs] == [
        ("batch_size", [16, 32, 64]),
        ("seeds", 6),
        ("learning_rate", [0.0333, 0.1, 0.3]),
    ]
    assert [need.minutes for need in needs[1:]] == [4 * 3.0, 2 * 5.0]
