"""Scores of tasks, from predictions and true answers; they need NumPy alone, and BLEU needs sacrebleu."""
