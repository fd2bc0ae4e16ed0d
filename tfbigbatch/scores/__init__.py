"""Scores of fine-tuning's tasks, from predictions and true answers; they need NumPy alone."""
