"""The extra `text`: prepares BERT's data with a vocabulary of its own, and parallel texts; scores a translation."""

import subprocess
import sys

import sacrebleu


def tfbigbatch(*arguments):
    subprocess.run([sys.executable, "-m", "tfbigbatch", *arguments], check=True)


def write(name, text):
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)


words = ["the", "cat", "sat", "on", "a", "mat", "and", "big", "dogs", "ran", "home", "to", "eat", "red", "fish"]
lines = [" ".join(words[row % 7 : row % 7 + 3 + row % 5]) + "." for row in range(400)]
write("text.txt", "\n\n".join("\n".join(lines[row : row + 8]) for row in range(0, 400, 8)) + "\n")
tfbigbatch("prepare-bert", "--source=text.txt", "--output_dir=bert", "--train_vocab_size=100")
files = []
for side, end in (("source", "en"), ("target", "de")):
    write(f"text.{end}", "\n".join(lines) + "\n")
    files += [f"--{kind}{side}_files=text.{end}" for kind in ("", "test_")]
tfbigbatch("prepare-wmt", *files, "--output_dir=pairs", "--vocabulary_size=300")
assert sacrebleu.corpus_bleu(lines, [lines]).score > 99
