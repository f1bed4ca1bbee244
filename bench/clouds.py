#!/usr/bin/env python3
"""Measures gs:// or az:// on the test server: ckpt, libcurl and other clients, in turns. Under tests/gcs/run.sh or
tests/azure/run.sh, by a Python that has the clients (tools/bench --clouds):

  clouds.py CKPT_WHOLE [MIB [ROUNDS]]

Each contender puts the same MiB and gets them, in pieces of 32 MiB and by the number of connections that is its best.
Server and clients share the processors, and the server is one process of Python (without MD5: --no-md5), so what is
compared is what each client costs beside it. libcurl is one `curl --parallel`, whose bodies have no checksums. Prints
the medians, and each as a part of libcurl's speed.
"""

import concurrent.futures
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.parse
import urllib.request

PIECE, AT_ONCE = 32 << 20, (2, 4, 8)
FOLDER = "/dev/shm/ckpt-clouds"
AZURE, GCS = os.environ.get("CKPT_TEST_AZURE"), os.environ.get("CKPT_TEST_GCS")
BUCKET = "az://ckpt-test" if AZURE else "gs://ckpt-test"


def ask(url, headers=None, form=None):
    data = urllib.parse.urlencode(form).encode() if form else None
    with urllib.request.urlopen(urllib.request.Request(url, data, headers or {})) as answer:
        return json.load(answer)


def token():
    if AZURE:
        with open(os.environ["AZURE_FEDERATED_TOKEN_FILE"]) as file:
            form = {"grant_type": "client_credentials", "client_id": os.environ["AZURE_CLIENT_ID"],
                    "client_assertion": file.read(), "scope": "https://storage.azure.com/.default",
                    "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}
        tenant = os.environ["AZURE_AUTHORITY_HOST"] + "/" + os.environ["AZURE_TENANT_ID"]
        return ask(tenant + "/oauth2/v2.0/token", form=form)["access_token"]
    from google.auth.transport.requests import Request
    from google.oauth2.service_account import Credentials

    made = Credentials.from_service_account_file(
        os.environ["GOOGLE_APPLICATION_CREDENTIALS"],
        scopes=["https://www.googleapis.com/auth/devstorage.read_write"],
    )
    made.refresh(Request())
    return made.token


def curl(at_once, pieces):
    """One process of curl, so many transfers at once: (put, get)."""
    common = ["curl", "-s", "-S", "-f", "-Z", "--no-progress-meter", "--parallel-max", str(at_once)]
    common += ["-H", f"authorization: Bearer {token()}", "-H", "Expect:"]
    puts, gets = list(common), list(common)
    if AZURE:
        for words in (puts, gets):
            words += ["-H", "x-ms-version: 2021-12-02"]
        puts += ["-H", "x-ms-blob-type: BlockBlob"]
    else:
        puts += ["-X", "POST"]
    for i in range(pieces):
        where = f"{AZURE}/ckpt-test/raw/{i}" if AZURE else f"{GCS}/storage/v1/b/ckpt-test/o/raw%2F{i}?alt=media"
        to = where if AZURE else f"{GCS}/upload/storage/v1/b/ckpt-test/o?uploadType=media&name=raw%2F{i}"
        puts += ["-T", f"{FOLDER}/piece", "-o", "/dev/null", to]
        gets += ["-o", "/dev/null", where]
    return lambda: subprocess.run(puts, check=True), lambda: subprocess.run(gets, check=True)


def clients(pieces):
    """Others' clients, by name: how one puts a piece, and how it gets it. Each by threads, or at once by itself."""
    with open(f"{FOLDER}/piece", "rb") as file:
        data = file.read()
    if AZURE:
        from azure.storage.blob import ContainerClient

        own = ContainerClient.from_connection_string(os.environ["AZURE_STORAGE_CONNECTION_STRING"], "ckpt-test")
        yield "azure-storage-blob", (lambda i: own.upload_blob(f"theirs/{i}", data, overwrite=True),
                                     lambda i: own.download_blob(f"theirs/{i}").readall())
        import adlfs

        fs = adlfs.AzureBlobFileSystem(connection_string=os.environ["AZURE_STORAGE_CONNECTION_STRING"])
        yield "adlfs", fs
    else:
        from google.cloud import storage

        client = storage.Client(project="p", client_options={"api_endpoint": GCS})
        bucket = client.bucket("ckpt-test")
        yield "google-cloud-storage", (lambda i: bucket.blob(f"theirs/{i}").upload_from_string(data),
                                       lambda i: bucket.blob(f"theirs/{i}").download_as_bytes())
        # Else it asks by gRPC, for a minute, what kind of bucket it is.
        os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"
        import gcsfs

        yield "gcsfs", gcsfs.GCSFileSystem(project="p", endpoint_url=GCS,
                                           token=os.environ["GOOGLE_APPLICATION_CREDENTIALS"])


def whole(made, at_once, pieces):
    if isinstance(made, tuple):
        def run(one):
            with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
                list(pool.map(one, range(pieces)))
        return lambda: run(made[0]), lambda: run(made[1])
    with open(f"{FOLDER}/piece", "rb") as file:
        data = file.read()
    names = [f"ckpt-test/fs/{i}" for i in range(pieces)]
    return (lambda: made.pipe(dict.fromkeys(names, data), batch_size=at_once),
            lambda: made.cat(names, batch_size=at_once))


def ckpt(program, mib, verb, where):
    """Its own time, and its requests: what the program does before READY is the source's."""
    words = [program, verb, "--workload", "small", "--count", str(mib // 16), "--elements", str(4 << 20),
             "--blob", f"{FOLDER}/blob", "--path", where]
    if not os.path.exists(f"{FOLDER}/blob"):
        subprocess.run([program, "blob", *words[2:]], check=True, input="\n", text=True, stdout=subprocess.DEVNULL)
    done = subprocess.run(words, check=True, input="\n", text=True, capture_output=True)
    (result,) = [json.loads(line[7:]) for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    return result["t_total"]


def timed(work):
    begin = time.monotonic()
    work()
    return time.monotonic() - begin


def main(program, mib=1024, rounds=5):
    mib, rounds = int(mib), int(rounds)
    pieces = mib * (1 << 20) // PIECE
    os.makedirs(FOLDER, exist_ok=True)
    with open(f"{FOLDER}/piece", "wb") as file:
        file.write(os.urandom(PIECE))
    os.environ.setdefault("STORAGE_EMULATOR_HOST", GCS or "")
    contenders = {f"libcurl, {n} at once": curl(n, pieces) for n in AT_ONCE}
    if not AZURE:
        del os.environ["STORAGE_EMULATOR_HOST"]
    for name, made in clients(pieces):
        contenders.update({f"{name}, {n} at once": whole(made, n, pieces) for n in AT_ONCE})
    times = {name: ([], []) for name in [*contenders, "ckpt"]}
    for _ in range(rounds):
        for name, (put, get) in contenders.items():
            try:
                times[name][0].append(timed(put))
                times[name][1].append(timed(get))
            except Exception as error:
                print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
        if GCS:
            os.environ["STORAGE_EMULATOR_HOST"] = GCS
        where = f"{BUCKET}/run-{time.monotonic_ns()}"
        times["ckpt"][0].append(ckpt(program, mib, "save", where))
        times["ckpt"][1].append(ckpt(program, mib, "load", where))
        if GCS:
            del os.environ["STORAGE_EMULATOR_HOST"]
    medians = {name: [statistics.median(of) if of else float("inf") for of in both] for name, both in times.items()}
    limit = [min(m[verb] for name, m in medians.items() if name.startswith("libcurl")) for verb in (0, 1)]
    for name, found in medians.items():
        print(f"{name:40}" + "".join(f"  {what} {t:6.2f} s ({limit[i] / t:.2f})"
                                     for i, (what, t) in enumerate(zip(("put", "get"), found))))


if __name__ == "__main__":
    main(*sys.argv[1:])
