"""A command that is typed wrongly ends in one line, and nothing is written."""

from pathlib import Path

import pytest
import yaml

import run
from small_study import config

RUN = "digits-1f0a93c2+small_cnn+bs=8+lr=0.1+opt=sgd+ep=1+seed=0"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("train --run nosuch", "--run: received 'nosuch'; the name of a run in paths"),
        (f"line --run {RUN} --other {RUN}+x --settings default --output o", "--other: received 'd"),
        (f"evaluate --run {RUN} --settings x=1 --output o", "--settings: received 'x=1'; "),
        (
            f"snapshot --run {RUN} --epoch last",
            "--epoch: received 'last'; a number of epochs or middle",
        ),
        ("time_epoch --timing a+b --settings default --output o", "--timing: received 'a+b'; "),
        ("throughput --sweep a+b --settings default --output o", "--sweep: received 'a+b'; "),
        ("try_batch --sweep x --batch-size 8", "--sweep: received 'x'; "),
        ("prepare_data --dataset d --definition {bad", "--definition: received '{bad'; "),
        ("prepare_data --dataset d --definition [1]", "--definition: received '[1]'; "),
        ("prepare_data --dataset D+x --definition {}", "--dataset: received 'D+x'; "),
        ("watch --seconds -1", "--seconds: received '-1'; a number above 0 and at most 3600 "),
        ("watch --seconds nan", "--seconds: received 'nan'; "),
        ("tabulate --config c.yaml --experiment b --output s/b", "--experiment: received 'b'; "),
        ("figures --config c.yaml --experiment b --output o --tables t", "--experiment: receive"),
    ],
)
def test_a_word_that_an_option_does_not_take(words, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(yaml.safe_dump(config()))
    with pytest.raises(SystemExit) as raised:
        run.main(words.split())
    assert str(raised.value).startswith(line)
    assert str(raised.value).endswith(" expected.")
    assert [path.name for path in tmp_path.iterdir()] == ["c.yaml"]
