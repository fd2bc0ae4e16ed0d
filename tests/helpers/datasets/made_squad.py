"""A small SQuAD for the tests."""

import json

CONTEXT = "The Broncos of Denver won Super Bowl 50 in 2016, beating Carolina 24-10."
OTHER = "Beyoncé sang there."


def entry(name, question, context, *answers, **fields):
    """A question whose answers are texts of the context."""
    found = [{"text": text, "answer_start": context.index(text)} for text in answers]
    return {"id": name, "question": question, "answers": found, **fields}


def write(path, *, version_2=False):
    """Writes three questions about two paragraphs; in v2 the last has no answer."""
    last = entry("c", "Who wrote it?", OTHER, "Beyoncé")
    if version_2:
        last = entry("c", "Who wrote it?", OTHER, is_impossible=True)
    first = [
        entry("a", "Who won Super Bowl 50?", CONTEXT, "Broncos of Denver", "Broncos"),
        entry("b", "What was the score?", CONTEXT, "24-10"),
    ]
    paragraphs = [{"context": CONTEXT, "qas": first}, {"context": OTHER, "qas": [last]}]
    content = {"version": "2" if version_2 else "1.1", "data": [{"title": "Bowl", "paragraphs": paragraphs}]}
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)
