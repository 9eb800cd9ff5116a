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
AT_A_BUDGET = [f"{size},{seed},{640 // size},5,0.9" for size in (8, 16, 32) for seed in (0, 1)]


@pytest.fixture
def read(tmp_path):
    """Returns a function that reads lines as a table of one's own."""

    def of_lines(lines):
        path = tmp_path / "own.csv"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return own_runs.read(path)

    return of_lines


def test_a_good_table(read):
    runs = read(GOOD)
    assert runs.factors == []
    assert runs.frame["examples"].tolist() == [80, 160, 160, 320, 320, 640]
    assert runs.frame["validation_loss"].tolist() == [0.5, 0.2, 0.4, 0.1, 0.3, 0.1]


def test_the_trajectories_of_an_experiment(read):
    """What names a training distinguishes no series; seconds are empty where nothing was timed."""
    lines = [f"run,status,machine,seconds,{GOOD[0]}"]
    lines += [f"seed {line.split(',')[1]},finished,,,{line}" for line in GOOD[1:]]
    runs = read(lines)
    assert runs.factors == []
    assert set(runs.frame["status"]) == {"finished"}
    assert runs.frame.equals(read(GOOD).frame)


def test_seeds_that_float64_does_not_tell_apart(read):
    seeds = (9007199254740992, 9007199254740993)
    rows = [f"{size},{seed},10,0.5" for size in (8, 16, 32) for seed in seeds]
    assert read([HEADER, *rows]).frame["seed"].tolist() == [*seeds] * 3


def test_examples_in_place_of_updates(read):
    lines = [line.replace("updates", "examples") for line in GOOD]
    runs = read(lines)
    assert runs.frame["updates"].tolist() == [10 / 8, 20 / 8, 10 / 16, 20 / 16, 10 / 32, 20 / 32]


def test_what_diverged_has_no_number(read):
    runs = read([*GOOD, "32,1,10,", "32,1,20,nan", "32,2,20,inf"])
    losses = runs.frame["validation_loss"].tolist()
    assert math.isnan(losses[-3]) and losses[-2:] == [math.inf, math.inf]


def test_a_mark_of_its_encoding_and_blank_lines_are_no_harm(read):
    lines = ["\ufeff" + GOOD[0], "", *GOOD[1:], ""]
    assert len(read(lines).frame) == 6


def test_a_single_row_that_never_reached(read):
    lines = ["batch_size,seed,updates", "8,0,", "16,0,inf", "32,0,20", "64,0,15"]
    updates = read(lines).frame["updates"]
    assert [math.isnan(value) for value in updates] == [True, True, False, False]


def test_factors_are_numbers_where_they_can_be(read):
    more = ["lr,model", *["0.1,a"] * 2, *["0.2,a"] * 2, *["0.4,a"] * 2]
    runs = read([f"{line},{each}" for line, each in zip(GOOD, more, strict=True)])
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
        (0, ",batch_size,seed,updates", "line 1: received column 1 without a name; a name is"),
        (0, "batch_size,seed,,", "line 1: received column 3 without a name; a name is expected"),
        (
            2,
            "8,9007199254740993.0,20,0.2",
            ", line 3, seed: received '9007199254740993.0'; a whole",
        ),
        (2, "8,9223372036854775808,20,0.2", "; a whole number from 0 on, below 2^63, is expected."),
        (0, "batch_size,seed,updates,val_loss", "Is 'val_loss' validation_loss?"),
    ],
)
def test_a_mistake_is_answered_with_its_place(read, tmp_path, place, line, expected):
    lines = list(GOOD)
    lines[place] = line
    with pytest.raises(UserError) as error:
        read(lines)
    assert expected in str(error.value)
    path = str(tmp_path / "own.csv")
    assert all(each.startswith(path) for each in str(error.value).splitlines())


def test_what_was_used_never_falls(read):
    header = "batch_size,seed,updates,seconds,epoch,validation_loss"
    rows = [
        f"{size},0,{step},{step / 10},{step},0.{step}" for size in (8, 16, 32) for step in (1, 2)
    ]
    assert len(read([header, *rows]).frame) == 6
    rows[1] = "8,0,2,0.05,2,0.2"  # the clock of a training that went on
    rows[3] = "16,0,2,0.2,0.5,0.2"
    with pytest.raises(UserError) as error:
        read([header, *rows])
    seconds, epoch = str(error.value).splitlines()
    assert ", line 3, seconds: received 0.05, less than the 0.1 of line 2, where the" in seconds
    assert ", line 5, epoch: received 0.5, less than the 1 of line 4" in epoch


def test_examples_are_those_of_the_updates(read):
    header = "batch_size,seed,updates,examples,validation_loss"
    rows = [f"{size},0,{step},{size * step},0.{step}" for size in (8, 16, 32) for step in (1, 2)]
    rows[1] = "8,0,2,13,0.2"  # an epoch's last batch is smaller
    assert len(read([header, *rows]).frame) == 6
    rows[3] = "16,0,2,32768,0.2"  # tokens
    with pytest.raises(UserError, match="line 5, examples: received 32768, but 2 updates of batch"):
        read([header, *rows])


def test_what_became_of_a_training_may_stand_in_its_last_row_alone_in_either_case(read):
    words = ["status", "", "diverged", "", "Finished", "", ""]
    frame = read([f"{line},{word}" for line, word in zip(GOOD, words, strict=True)]).frame
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
def test_a_training_diverged_where_its_last_losses_are_not_finite(read, last, status):
    lines = ["batch_size,seed,updates,validation_loss,validation_accuracy"]
    for size in (8, 32, 128):
        lines += [f"{size},0,{index},{1 / index},0.{index}" for index in (1, 2)]
    lines[-1] = f"128,0,2,{last}"
    frame = read(lines).frame
    assert frame["status"].tolist() == ["finished"] * 4 + [status] * 2


def test_all_mistakes_at_once_but_not_without_end(read):
    with pytest.raises(UserError) as error:
        read([HEADER, *["x,0,1,0.1"] * 30])
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
        (
            [f"{GOOD[0]},schedule", *(f"{line},linear" for line in GOOD[1:])],
            "column schedule: received 'linear', whose rate falls",
        ),
        (
            ["batch_size,seed,updates,test_accuracy", "8,0,10,97.3", *GOOD[2:]],
            "test_accuracy: received '97.3'; a share from 0 to 1",
        ),
        # Single rows at a budget are no targets.
        (
            ["batch_size,seed,updates,epoch,test_accuracy", *AT_A_BUDGET],
            "epoch: received 5 in the single row of every training",
        ),
        (
            ["batch_size,seed,updates,at,test_accuracy", *AT_A_BUDGET],
            "examples: received 640 in the single row of every",
        ),
    ],
)
def test_what_is_no_table(read, lines, expected):
    with pytest.raises(UserError, match=re.escape(expected)):
        read(lines)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match="none.csv: cannot be read .No such file or directory"):
        own_runs.read(tmp_path / "none.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="received no CSV text"):
        own_runs.read(tmp_path / "bytes.csv")


def test_targets(read):
    runs = read(GOOD)
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
def test_targets_that_are_none(read, text, expected):
    with pytest.raises(UserError, match=expected):
        own_runs.target(text, read(GOOD))


def test_no_target_that_all_reached(read):
    runs = read([*GOOD, "32,1,10,0.3", "32,1,20,0.4"])
    with pytest.raises(UserError, match="there is no validation_loss that is better than"):
        own_runs.check_default_targets(runs)


def test_seconds_of_a_step():
    assert own_runs.step_seconds("0.002, 1e-4") == (0.002, 0.0001)
    for text in ("0.002", "a,b", "0,1", "1,2,3", "inf,1"):
        with pytest.raises(UserError, match="two numbers above 0 are expected"):
            own_runs.step_seconds(text)
