"""On PyPI `ckpt` is another project, whose package has the same name. pip installs both into one folder, where each
replaces files of the other, and removing one removes files of the other.
"""
import os
import warnings

if os.path.exists(os.path.join(os.path.dirname(__file__), "decorator.py")):  # theirs; we have none
    warnings.warn("the projects `ckpt` and `libckpt` of PyPI are both installed, and share the package ckpt; this is "
                  "libckpt. Mend it by `pip uninstall ckpt libckpt`, then `pip install libckpt`",
                  RuntimeWarning, stacklevel=3)
