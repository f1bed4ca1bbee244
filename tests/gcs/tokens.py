"""The access tokens of the test server, and who gets them: each kind of Google's credentials."""
import datetime, time

import service
from objects import json_answer, text_answer, to_object
from rs256 import claims_of, read_public_key
from service import Refused


class Tokens(service.Tokens):
    """Access tokens, and who gets them: the kinds of Google's credentials."""
    prefix = 'ya29.'

    def __init__(self, options):
        super().__init__(options)
        self.account, self.key = options.account, read_public_key(options.public_key)

    def check(self, headers):
        if not self.holds(headers):
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
        payload = claims_of(text, self.key)
        if not payload:
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
