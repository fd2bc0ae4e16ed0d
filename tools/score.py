"""Scores predictions by the rules of the data set's authors.

    python tools/score.py squad --data=dev-v1.1.json --predictions=predictions.json
    python tools/score.py squad --data=dev-v2.0.json --predictions=predictions.json --no_answer_odds=odds.json

SQuAD's predictions are a JSON dictionary from the questions' ids to texts, those of the official scripts; v2's
empty text says that there is no answer. The rules of v2 are taken where the data has such questions. All scores
are in percent.
"""

import json

from absl import flags

from tfbigbatch import command
from tfbigbatch.data import squad_questions
from tfbigbatch.data.whole_file import replace
from tfbigbatch.errors import InputError, nearest
from tfbigbatch.scores import squad

flags.DEFINE_string("data", None, "The data set's file with the true answers.", required=True)
flags.DEFINE_string("predictions", None, "The predictions.", required=True)
flags.DEFINE_string("no_answer_odds", None, "SQuAD v2: JSON from ids to numbers, the greater the likelier no answer.")
flags.DEFINE_float("threshold", 1.0, "SQuAD v2: above which odds a prediction counts as no answer.")
flags.DEFINE_string("results", None, "Also write the scores to this path, as JSON.")


def _main(arguments):
    if len(arguments) != 1:
        raise InputError(f"expected one data set: python tools/score.py {'|'.join(_DATA_SETS)} --data=... See --help.")
    if arguments[0] not in _DATA_SETS:
        raise InputError(f"{arguments[0]!r} is not a data set with scores here. {nearest(arguments[0], _DATA_SETS)}")
    options = flags.FLAGS
    scores = _DATA_SETS[arguments[0]](options)
    for name, value in scores.items():
        print(f"{name:32s} {value:,}" if isinstance(value, int) else f"{name:32s} {value:.3f}")
    if options.results:
        text = json.dumps(scores, indent=1) + "\n"
        try:
            replace(options.results, lambda file: file.write(text.encode()))
        except OSError as error:
            raise InputError(f"--results={options.results} cannot be written: {error.strerror or error}.") from None


def _squad(options):
    answers = squad_questions.answer_texts(squad_questions.read(options.data))
    predictions = _dictionary(options.predictions)
    unanswered = [question for question in answers if question not in predictions]
    if unanswered:
        print(f"no prediction for {len(unanswered):,} questions, which count 0, such as {', '.join(unanswered[:3])}")
    if all(answers.values()) and not options.no_answer_odds:
        return squad.scores(answers, predictions)
    odds = _dictionary(options.no_answer_odds) if options.no_answer_odds else None
    return squad.scores_with_no_answer(answers, predictions, odds, options.threshold)


def _dictionary(path):
    content = squad_questions.read_json(path)
    if not isinstance(content, dict):
        raise InputError(f"{path} holds a {type(content).__name__}; expected a dictionary from the questions' ids.")
    return content


_DATA_SETS = {"squad": _squad}

if __name__ == "__main__":
    command.execute(_main, takes_arguments=True)
