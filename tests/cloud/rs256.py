"""JSON Web Tokens by RS256: sign() for tests, by openssl; verify() in plain Python.

rs256.py KEY CLAIMS: prints the token of these claims (JSON), signed with the private key of the PEM file KEY.
"""
import base64, hashlib, json, re, subprocess, sys


def base64url(text):
    if not re.fullmatch(r'[\w-]+', text, re.ASCII):
        raise ValueError(text)
    return base64.urlsafe_b64decode(text + '=' * (-len(text) % 4))


def sign(key_file, claims, wrong=b''):
    """`wrong`: what else gets into the signature, which then is none."""
    parts = [base64.urlsafe_b64encode(part).rstrip(b'=') for part in
             (b'{"alg":"RS256","typ":"JWT"}', json.dumps(claims).encode())]
    command = ['openssl', 'dgst', '-sha256', '-sign', key_file]
    signature = subprocess.run(command, input=wrong + b'.'.join(parts), check=True, capture_output=True).stdout
    return b'.'.join([*parts, base64.urlsafe_b64encode(signature).rstrip(b'=')]).decode()


def claims_of(text, key):
    """The claims of a token that this key signed, else None. Throws what parsing throws."""
    signed, _, signature = text.rpartition('.')
    header, payload = (json.loads(base64url(part)) for part in signed.split('.'))
    if header['alg'] != 'RS256' or not key or not verify(key, signed.encode(), base64url(signature)):
        return None
    return payload


def read_public_key(path):
    if not path:
        return None
    with open(path, encoding='ascii') as file:
        return public_key(file.read())


def public_key(pem):
    """The modulus and exponent of an RSA key as `openssl rsa -pubout` writes it."""
    def content(data, at, tag):  # where the DER element's bytes begin and end
        size, start = data[at + 1], at + 2
        if size & 128:
            start += size & 127
            size = int.from_bytes(data[at + 2:start], 'big')
        assert data[at] == tag, 'an RSA public key in PEM was expected'
        return start, start + size
    data = base64.b64decode(''.join(line for line in pem.splitlines() if not line.startswith('-')))
    _, algorithm_end = content(data, content(data, 0, 0x30)[0], 0x30)
    bits = content(data, algorithm_end, 0x03)[0] + 1
    start, end = content(data, content(data, bits, 0x30)[0], 0x02)
    exponent_start, exponent_end = content(data, end, 0x02)
    return int.from_bytes(data[start:end], 'big'), int.from_bytes(data[exponent_start:exponent_end], 'big')


def verify(key, data, signature):
    """Whether it is the RS256 signature (PKCS #1 v1.5 with SHA-256) of the data."""
    size = (key[0].bit_length() + 7) // 8
    digest = bytes.fromhex('3031300d060960864801650304020105000420') + hashlib.sha256(data).digest()
    real = pow(int.from_bytes(signature, 'big'), key[1], key[0]).to_bytes(size, 'big')
    return len(signature) == size and real == b'\0\1' + b'\xff' * (size - len(digest) - 3) + b'\0' + digest


if __name__ == '__main__':
    print(sign(sys.argv[1], json.loads(sys.argv[2])))
