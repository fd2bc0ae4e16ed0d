"""The commands that compile for TPUs and plan runs on them."""
