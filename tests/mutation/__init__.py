"""Do the tests notice a fault? Modules are changed in one place at a time, and the tests that cover them are run."""
