"""The workbench: a server for one page in which people and solvers reassemble together."""
