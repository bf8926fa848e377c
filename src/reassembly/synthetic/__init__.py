"""Frescoes made by code: painted, broken, worn and labelled."""
