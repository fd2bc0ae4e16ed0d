"""Instruments: what tells why and when a large batch loses accuracy."""
