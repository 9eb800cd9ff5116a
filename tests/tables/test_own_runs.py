"""A table of one's own trainings: what is read, and what is answered where it is not one."""

import math
import re

import pytest

from batchscope.errors import UserError
from batchscope.tables import own_runs

ROW = "8,0,10,0.5"
HEADER = "batch_size,seed,updates,validation_loss"
GOOD = [HEADER, "8,0,10,0.5", "8,0,20,0.2", "16,0,10,0.4", "16,0,20,0.1", "32,0,10,0.3"]
GOOD = [*GOOD, "32,0,20,0.1"]


def written(tmp_path, lines):
    path = tmp_path / "own.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_good_table(tmp_path):
    runs = own_runs.read(written(tmp_path, GOOD))
    assert runs.factors == []
    assert runs.frame["examples"].tolist() == [80, 160, 160, 320, 320, 640]
    assert runs.frame["validation_loss"].tolist() == [0.5, 0.2, 0.4, 0.1, 0.3, 0.1]


def test_the_trajectories_of_an_experiment(tmp_path):
    """What names a training distinguishes no series; seconds are empty where nothing was timed."""
    lines = [f"run,status,machine,seconds,{GOOD[0]}"]
    lines += [f"seed {line.split(',')[1]},finished,,,{line}" for line in GOOD[1:]]
    runs = own_runs.read(written(tmp_path, lines))
    assert runs.factors == []
    assert set(runs.frame["status"]) == {"finished"}
    assert runs.frame.equals(own_runs.read(written(tmp_path, GOOD)).frame)


def test_examples_in_place_of_updates(tmp_path):
    lines = [line.replace("updates", "examples") for line in GOOD]
    runs = own_runs.read(written(tmp_path, lines))
    assert runs.frame["updates"].tolist() == [10 / 8, 20 / 8, 10 / 16, 20 / 16, 10 / 32, 20 / 32]


def test_what_diverged_has_no_number(tmp_path):
    runs = own_runs.read(written(tmp_path, [*GOOD, "32,1,10,", "32,1,20,nan", "32,2,20,inf"]))
    losses = runs.frame["validation_loss"].tolist()
    assert math.isnan(losses[-3]) and losses[-2:] == [math.inf, math.inf]


def test_a_mark_of_its_encoding_and_blank_lines_are_no_harm(tmp_path):
    lines = ["\ufeff" + GOOD[0], "", *GOOD[1:], ""]
    assert len(own_runs.read(written(tmp_path, lines)).frame) == 6


def test_a_single_row_that_never_reached(tmp_path):
    lines = ["batch_size,seed,updates", "8,0,", "16,0,inf", "32,0,20", "64,0,15"]
    updates = own_runs.read(written(tmp_path, lines)).frame["updates"]
    assert [math.isnan(value) for value in updates] == [True, True, False, False]


def test_factors_are_numbers_where_they_can_be(tmp_path):
    lines = [
        f"{line},{rate},{model}"
        for line, rate, model in zip(
            GOOD, ["lr", *[0.1] * 2, *[0.2] * 2, *[0.4] * 2], ["model", *["a"] * 6], strict=True
        )
    ]
    runs = own_runs.read(written(tmp_path, lines))
    assert runs.factors == ["lr", "model"]
    assert runs.frame["lr"].tolist() == [0.1, 0.1, 0.2, 0.2, 0.4, 0.4]


@pytest.mark.parametrize(
    "place, line, expected",
    [
        (2, "8,0,ten,0.2", ", line 3, updates: received 'ten'; a number from 0 on is expected."),
        (2, "8,0,,0.2", ", line 3, updates: received an empty text; a number from 0 on"),
        (2, "8,0,inf,0.2", ", line 3, updates: received 'inf'; a number from 0 on"),
        (2, "8.5,0,20,0.2", ", line 3, batch_size: received '8.5'; a whole number from 1 on"),
        (2, "0,0,20,0.2", ", line 3, batch_size: received '0'; a whole number from 1 on"),
        (2, "inf,0,20,0.2", ", line 3, batch_size: received 'inf'; a whole number from 1 on"),
        (2, "8,-1,20,0.2", ", line 3, seed: received '-1'; a whole number from 0 on"),
        (2, "8,0,20,-0.2", ", line 3, validation_loss: received '-0.2'; a number from 0 on"),
        (
            2,
            "8,0,5,0.2\n8,0,20,x",
            ", line 4, validation_loss: received 'x'; a number from 0 on, nan where it diverged,",
        ),
        (2, "8,0,20", ", line 3: received 3 cells; as many as the header's 4 are expected."),
        (
            2,
            "8,0,10,0.2",
            ", line 3: received batch size 8, seed 0 at 10 updates again, as in line",
        ),
        (0, "batchsize,seed,updates,validation_loss", "batch_size; it is expected. Is 'batchsize'"),
        (0, "batch_size,run,updates,validation_loss", "line 1: no column seed; it is expected."),
        (0, "batch_size,seed,step,validation_loss", "line 1: no column updates or examples"),
        (0, "batch_size,seed,updates,target", "line 1: received the column target, which is one"),
        (0, "batch_size,seed,updates,updates", "line 1: received updates twice"),
        (0, "batch_size,seed,updates,val_loss", "Is 'val_loss' validation_loss?"),
    ],
)
def test_a_mistake_is_answered_with_its_place(tmp_path, place, line, expected):
    lines = list(GOOD)
    lines[place] = line
    path = written(tmp_path, lines)
    with pytest.raises(UserError) as error:
        own_runs.read(path)
    assert expected in str(error.value)
    assert all(each.startswith(str(path)) for each in str(error.value).splitlines())


def test_what_was_used_never_falls(tmp_path):
    header = "batch_size,seed,updates,seconds,epoch,validation_loss"
    rows = [
        f"{size},0,{step},{step / 10},{step},0.{step}" for size in (8, 16, 32) for step in (1, 2)
    ]
    assert len(own_runs.read(written(tmp_path, [header, *rows])).frame) == 6
    rows[1] = "8,0,2,0.05,2,0.2"  # the clock of a training that went on
    rows[3] = "16,0,2,0.2,0.5,0.2"
    with pytest.raises(UserError) as error:
        own_runs.read(written(tmp_path, [header, *rows]))
    seconds, epoch = str(error.value).splitlines()
    assert ", line 3, seconds: received 0.05, less than the 0.1 of line 2, where the" in seconds
    assert ", line 5, epoch: received 0.5, less than the 1 of line 4" in epoch


def test_examples_are_those_of_the_updates(tmp_path):
    header = "batch_size,seed,updates,examples,validation_loss"
    rows = [f"{size},0,{step},{size * step},0.{step}" for size in (8, 16, 32) for step in (1, 2)]
    rows[1] = "8,0,2,13,0.2"  # an epoch's last batch is smaller
    assert len(own_runs.read(written(tmp_path, [header, *rows])).frame) == 6
    rows[3] = "16,0,2,32768,0.2"  # tokens
    with pytest.raises(UserError, match="line 5, examples: received 32768, but 2 updates of batch"):
        own_runs.read(written(tmp_path, [header, *rows]))


def test_single_rows_at_a_budget_are_no_targets(tmp_path):
    lines = ["batch_size,seed,updates,epoch,test_accuracy"]
    lines += [f"{size},{seed},{640 // size},5,0.9" for size in (8, 16, 32) for seed in (0, 1)]
    with pytest.raises(UserError, match="epoch: received 5 in the single row of every training"):
        own_runs.read(written(tmp_path, lines))
    lines = [line.replace(",epoch", ",at").replace(",5,", ",6,") for line in lines]
    with pytest.raises(UserError, match="examples: received 640 in the single row of every"):
        own_runs.read(written(tmp_path, lines))


def test_words_of_what_became_of_a_training_are_read_in_either_case(tmp_path):
    lines = [f"{GOOD[0]},status", *(f"{line},Finished" for line in GOOD[1:])]
    assert set(own_runs.read(written(tmp_path, lines)).frame["status"]) == {"finished"}


def test_what_became_of_a_training_may_stand_in_its_last_row_alone(tmp_path):
    words = ["", "diverged", "", "finished", "", ""]
    lines = [
        f"{GOOD[0]},status",
        *(f"{line},{word}" for line, word in zip(GOOD[1:], words, strict=True)),
    ]
    frame = own_runs.read(written(tmp_path, lines)).frame
    assert frame["status"].tolist() == ["diverged"] * 2 + ["finished"] * 4


@pytest.mark.parametrize(
    ("last", "status"),
    [
        (",0.3", "finished"),  # evaluated of less than the rows before
        (",", "finished"),  # not evaluated at the end
        ("nan,0.3", "diverged"),
        ("inf,", "diverged"),
    ],
)
def test_a_training_diverged_where_its_last_losses_are_not_finite(tmp_path, last, status):
    lines = ["batch_size,seed,updates,validation_loss,validation_accuracy"]
    for size in (8, 32, 128):
        lines += [f"{size},0,{index},{1 / index},0.{index}" for index in (1, 2)]
    lines[-1] = f"128,0,2,{last}"
    frame = own_runs.read(written(tmp_path, lines)).frame
    assert frame["status"].tolist() == ["finished"] * 4 + [status] * 2


def test_an_accuracy_in_percent_is_refused(tmp_path):
    lines = [line.replace("validation_loss", "test_accuracy") for line in GOOD]
    lines[1] = "8,0,10,97.3"
    with pytest.raises(UserError, match="test_accuracy: received '97.3'; a share from 0 to 1"):
        own_runs.read(written(tmp_path, lines))


def test_all_mistakes_at_once_but_not_without_end(tmp_path):
    with pytest.raises(UserError) as error:
        own_runs.read(written(tmp_path, [HEADER, *["x,0,1,0.1"] * 30]))
    lines = str(error.value).splitlines()
    assert len(lines) == 21 and lines[-1] == "And 10 problems more."


@pytest.mark.parametrize(
    "lines, expected",
    [
        ([""], "received an empty file"),
        ([HEADER], "received a header alone; a header and at least one row are expected."),
        ([HEADER, '8,0,10,"0.5'], "received no CSV text"),
        ([HEADER, ROW, "16,0,10,0.1"], "batch_size: received 8 and 16; at least 3 different"),
        (
            ["batch_size,seed,updates,seconds", "8,0,5,", "16,0,4,2", "32,0,3,1"],
            "line 2, seconds: received nothing, but a number of another of updates and seconds",
        ),
        (["batch_size,seed,updates", "8,0,1", "8,0,2"], "line 1: no loss or accuracy, and several"),
        (
            [f"{line},{word}" for line, word in zip(GOOD, "nabcdef", strict=True)],
            "received 6 series, distinguished by n, none with 3 batch sizes",
        ),
    ],
)
def test_what_is_no_table(tmp_path, lines, expected):
    with pytest.raises(UserError, match=re.escape(expected)):
        own_runs.read(written(tmp_path, lines))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match="none.csv: cannot be read .No such file or directory"):
        own_runs.read(tmp_path / "none.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="received no CSV text"):
        own_runs.read(tmp_path / "bytes.csv")


def test_rates_that_fall_towards_the_horizon(tmp_path):
    falling = [f"{GOOD[0]},schedule", *(f"{line},linear" for line in GOOD[1:])]
    with pytest.raises(UserError, match="column schedule: received 'linear', whose rate falls"):
        own_runs.read(written(tmp_path, falling))


def test_targets(tmp_path):
    runs = own_runs.read(written(tmp_path, GOOD))
    found = own_runs.target("validation_loss=0.2", runs)
    assert (found.column, found.value) == ("validation_loss", 0.2)
    own_runs.check_default_targets(runs)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("validation_los=0.2", "one of validation_loss, .* Did you mean 'validation_loss'"),
        ("0.2", "received '0.2'; one of validation_loss"),
        ("validation_loss=low", "--target validation_loss: received 'low'; a number above 0"),
        ("validation_loss=0", "--target validation_loss: received '0'; a number above 0"),
        ("validation_loss", "--target validation_loss: received an empty text"),
    ],
)
def test_targets_that_are_none(tmp_path, text, expected):
    with pytest.raises(UserError, match=expected):
        own_runs.target(text, own_runs.read(written(tmp_path, GOOD)))


def test_no_target_that_all_reached(tmp_path):
    runs = own_runs.read(written(tmp_path, [*GOOD, "32,1,10,0.3", "32,1,20,0.4"]))
    with pytest.raises(UserError, match="there is no validation_loss that is better than"):
        own_runs.check_default_targets(runs)


def test_seconds_of_a_step():
    assert own_runs.step_seconds("0.002, 1e-4") == (0.002, 0.0001)
    for text in ("0.002", "a,b", "0,1", "1,2,3", "inf,1"):
        with pytest.raises(UserError, match="two numbers above 0 are expected"):
            own_runs.step_seconds(text)
