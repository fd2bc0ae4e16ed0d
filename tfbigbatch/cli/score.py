"""Scores predictions by the rules of the dataset's authors, in percent.

    tfbigbatch score squad --data=dev-v1.1.json --predictions=predictions.json
    tfbigbatch score squad --data=dev-v2.0.json --predictions=predictions.json --no_answer_odds=odds.json
    tfbigbatch score glue --task=MRPC --data=glue_data --predictions=MRPC.tsv
    tfbigbatch score race --data=RACE --split=test --predictions=predictions.json

SQuAD predictions are a JSON dictionary from question ids to texts, as the official scripts read it; in v2 an empty
text means no answer. The rules of v2 apply when the data has unanswerable questions. GLUE predictions are a .tsv file
as submitted to its site, with the columns index and prediction. RACE predictions are a JSON dictionary from ids, as
high/19432-0 for the first question of high/19432.txt, to letters from A to D.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from absl import flags

from tfbigbatch.data.finetuning import glue as glue_data
from tfbigbatch.data.finetuning import race as race_data
from tfbigbatch.data.finetuning import squad as squad_data
from tfbigbatch.errors import InputError, nearest
from tfbigbatch.tasks import scores
from tfbigbatch.utils import files


def define_flags() -> None:
    flags.DEFINE_string("data", None, "SQuAD's file, GLUE's folder, or RACE's folder or tar file.", required=True)
    flags.DEFINE_string("predictions", None, "File of the predictions.", required=True)
    flags.DEFINE_string("split", None, "Split of GLUE or RACE. Default: dev; for MNLI dev_matched.")
    flags.DEFINE_string("task", None, f"GLUE's task: {', '.join(scores.GLUE_TASKS)}.")
    flags.DEFINE_string(
        "no_answer_odds", None, "SQuAD v2: JSON from ids to numbers; the greater, the likelier is no answer."
    )
    flags.DEFINE_string("results", None, "Also write the scores to this path, as JSON.")


def main(arguments: Sequence[str]) -> None:
    if len(arguments) != 1:
        raise InputError(f"expected one data set: tfbigbatch score {'|'.join(_DATA_SETS)} --data=... See --help.")
    if arguments[0] not in _DATA_SETS:
        raise InputError(f"{arguments[0]!r} is not a data set with scores here. {nearest(arguments[0], _DATA_SETS)}")
    options = flags.FLAGS
    found = _DATA_SETS[arguments[0]](options)
    for name, value in found.items():
        print(f"{name:32s} {value:,}" if isinstance(value, int) else f"{name:32s} {value:.3f}")
    if options.results:
        files.write_json(options.results, found)


def _squad(options: flags.FlagValues) -> dict[str, Any]:
    answers = squad_data.answer_texts(squad_data.read(options.data))
    predictions = files.read_json_dictionary(options.predictions)
    _print_missing(answers, predictions)
    odds = files.read_json_dictionary(options.no_answer_odds) if options.no_answer_odds else None
    no_answer = odds is not None or not all(answers.values())
    return scores.squad(answers, predictions, no_answer=no_answer, odds=odds)


def _glue(options: flags.FlagValues) -> dict[str, Any]:
    if options.task is None:
        raise InputError(f"--task is missing; expected one of {', '.join(scores.GLUE_TASKS)}.")
    predictions = glue_data.read_predictions(options.predictions, options.task)
    split = options.split or ("dev_matched" if options.task == "MNLI" else "dev")
    labels = glue_data.read(options.data, options.task, split).labels
    if labels is None:
        raise InputError(f"{options.task}'s {split} has no labels: GLUE's site scores it.")
    return scores.glue(options.task, labels, predictions)


def _race(options: flags.FlagValues) -> dict[str, Any]:
    questions = race_data.read(options.data, options.split or "dev")
    predictions = files.read_json_dictionary(options.predictions)
    _print_missing([question.id for question in questions], predictions)
    wrong = [letter for letter in predictions.values() if letter not in list(race_data.OPTIONS)]
    if wrong:
        raise InputError(f"{options.predictions}: the prediction {wrong[0]!r}; expected a letter from A to D.")
    chosen = [race_data.OPTIONS.find(predictions.get(question.id, "none")) for question in questions]
    return scores.race([q.answer for q in questions], chosen, [q.level for q in questions])


def _print_missing(ids: Iterable[str], predictions: Collection[str]) -> None:
    missing = [each for each in ids if each not in predictions]
    if missing:
        print(f"no prediction for {len(missing):,} questions, which count 0, such as {', '.join(missing[:3])}")


_DATA_SETS = {"squad": _squad, "glue": _glue, "race": _race}
