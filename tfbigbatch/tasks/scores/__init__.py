"""Official scores of data sets, from predictions and answers; they need only NumPy, and BLEU sacrebleu."""
