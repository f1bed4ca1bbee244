"""The access tokens of the test server, and who gets them: each kind of Google's credentials."""
import base64, datetime, hashlib, json, re, secrets, time

from objects import Refused, json_answer, text_answer, to_object


class Tokens:
    """Access tokens, and who gets them: the kinds of Google's credentials."""

    def __init__(self, options):
        self.live, self.seconds, self.account, self.key = {}, options.token_seconds, options.account, None
        if options.public_key:
            with open(options.public_key, encoding='ascii') as file:
                self.key = public_key(file.read())

    def new(self):
        token = 'ya29.' + secrets.token_hex(24)
        self.live[token] = time.time() + self.seconds
        return token

    def check(self, headers):
        kind, _, token = headers.get('Authorization', '').partition(' ')
        if kind != 'Bearer' or self.live.get(token, 0) <= time.time():
            raise Refused(401, 'authError', 'Invalid Credentials')

    def answer(self, **more):
        return json_answer({'access_token': self.new(), 'expires_in': self.seconds, 'token_type': 'Bearer', **more})

    def refused(self, status, error, description):
        return json_answer({'error': error, 'error_description': description}, status)

    def token(self, request):
        form = request.form()
        if form.get('grant_type') == 'refresh_token':
            if (form.get('client_id'), form.get('client_secret')) != ('client', 'client-secret'):
                return self.refused(401, 'invalid_client', 'The OAuth client was not found.')
            if form.get('refresh_token') != 'refresh-secret':
                return self.refused(400, 'invalid_grant', 'Token has been expired or revoked.')
            return self.answer(scope='https://www.googleapis.com/auth/cloud-platform')
        if form.get('grant_type') != 'urn:ietf:params:oauth:grant-type:jwt-bearer':
            return self.refused(400, 'unsupported_grant_type', 'Invalid grant_type')
        try:
            wrong = self.wrong_jwt(form.get('assertion', ''), f'http://{request.headers["Host"]}/token')
        except (ValueError, KeyError, TypeError, AttributeError):
            wrong = 'malformed'
        return self.refused(400, 'invalid_grant', f'Invalid JWT: {wrong}') if wrong else self.answer()

    def wrong_jwt(self, text, audience):
        """What is wrong with the signed assertion of a service account."""
        signed, _, signature = text.rpartition('.')
        header, payload = (json.loads(base64url(part)) for part in signed.split('.'))
        if header['alg'] != 'RS256' or not self.key or not verify(self.key, signed.encode(), base64url(signature)):
            return 'Invalid JWT Signature.'
        if payload['iss'] != self.account:
            return 'account not found'
        if not {'https://www.googleapis.com/auth/cloud-platform',
                'https://www.googleapis.com/auth/devstorage.read_write',
                'https://www.googleapis.com/auth/devstorage.full_control'} & set(payload['scope'].split(' ')):
            return 'the scope does not allow to write objects'
        if payload['aud'] not in (audience, 'https://oauth2.googleapis.com/token'):
            return 'Failed audience check.'
        now, begin, end = time.time(), payload['iat'], payload['exp']
        if not (type(begin) is type(end) is int and begin <= now + 60 and now < end <= begin + 3600):
            return 'Token must be a short-lived token (60 minutes) and in a reasonable timeframe.'
        return ''

    def exchange(self, request):
        form = request.form()
        if form.get('grant_type') != 'urn:ietf:params:oauth:grant-type:token-exchange':
            return self.refused(400, 'unsupported_grant_type', 'Invalid grant_type')
        missing = [name for name in ('audience', 'scope', 'requested_token_type', 'subject_token_type')
                   if not form.get(name)]
        if missing:
            return self.refused(400, 'invalid_request', f'Missing {missing[0]}')
        if form.get('subject_token') != 'subject-secret':
            return self.refused(400, 'invalid_grant', 'The subject token is invalid.')
        return self.answer(issued_token_type='urn:ietf:params:oauth:token-type:access_token')

    def impersonate(self, request):
        self.check(request.headers)
        if not to_object(request.body).get('scope'):
            raise Refused(400, 'badRequest', 'The scope is missing')
        end = datetime.datetime.fromtimestamp(int(time.time() + self.seconds), datetime.timezone.utc)
        return json_answer({'accessToken': self.new(), 'expireTime': end.isoformat().replace('+00:00', 'Z')})

    def metadata_server(self, request):
        flavor = {'Metadata-Flavor': 'Google'}
        if request.headers.get('Metadata-Flavor') != 'Google':
            return text_answer(403, 'Missing Metadata-Flavor:Google header.', flavor)
        status, headers, body = self.answer()
        return status, {**headers, **flavor}, body


def base64url(text):
    if not re.fullmatch(r'[\w-]+', text, re.ASCII):
        raise ValueError(text)
    return base64.urlsafe_b64decode(text + '=' * (-len(text) % 4))


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
