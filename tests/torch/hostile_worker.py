"""Opens and imports files as they are named on standard input, a JSON line of what came of each on standard output.

A line is {"open": [status, message] (with verify=0), "verify": …, "import": …}. The status is "OK" where the file was
accepted, and then the message is a digest of all that was read; it is "NONSENSE" where what the library said cannot be
true. The parent knows by the missing line which file ended this process.
"""
import hashlib
import json
import resource
import sys

import capi


def outcome(work):
    try:
        return ["OK", hashlib.sha256(repr(work()).encode()).hexdigest()]
    except capi.CkptError as error:
        return [error.status, error.message]
    except (AssertionError, UnicodeDecodeError) as error:
        return ["NONSENSE", str(error)]


def imported(path):
    with capi.store("mem:hostile") as store:
        capi.import_file(store, path, "x")
        return capi.read_checkpoint(store, "x", run="import")


def content(path, **settings):
    form, tree, tensors = capi.open_file(path, **settings)
    return form, tree, [(name, found._replace(start=None)) for name, found in tensors.items()]


for line in sys.stdin:
    file = line.rstrip("\n")
    said = {"open": outcome(lambda: content(file, verify=0)), "verify": outcome(lambda: content(file, verify=1)),
            "import": outcome(lambda: imported(file)),
            "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
    print(json.dumps(said), flush=True)
