"""Reference models, one a file, built of Keras layers."""
