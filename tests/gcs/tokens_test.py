"""Who gets an access token of the test server, and who does not. server_test.py runs it."""
import json, os, sys, time, unittest, urllib.parse

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'cloud'))
from rs256 import sign
from server_test import METADATA_SERVER, O, Client

ACCOUNT = os.environ.get('GOOGLE_APPLICATION_CREDENTIALS', '')


class Credentials(Client, unittest.TestCase):
    def credentials(self, path='/token', **form):
        status = self.ask('POST', path, urllib.parse.urlencode(form).encode())
        return self.json['access_token'] if status == 200 else status

    def assertion(self, **changed):
        with open(ACCOUNT, encoding='ascii') as file:
            account, now, wrong = json.load(file), int(time.time()), changed.pop('signature', b'')
        claims = {'iss': account['client_email'], 'aud': account['token_uri'], 'iat': now, 'exp': now + 3600,
                  'scope': 'https://www.googleapis.com/auth/devstorage.read_write', **changed}
        assertion = sign(os.path.join(os.path.dirname(ACCOUNT), 'key.pem'), claims, wrong)
        return self.credentials(grant_type='urn:ietf:params:oauth:grant-type:jwt-bearer', assertion=assertion)

    def test_each_kind_gives_a_token_that_ends_and_wrong_ones_give_none(self):
        exchange = {'grant_type': 'urn:ietf:params:oauth:grant-type:token-exchange', 'audience': 'a', 'scope': 's',
                    'requested_token_type': 'r', 'subject_token_type': 's'}
        refresh = {'grant_type': 'refresh_token', 'client_id': 'client', 'client_secret': 'client-secret'}
        self.assertEqual(self.ask('POST', '/impersonate/x:generateAccessToken', {'scope': ['s']}), 200)
        tokens = [self.json['accessToken'], self.token, self.assertion(),
                  self.credentials(refresh_token='refresh-secret', **refresh),
                  self.credentials('/sts', subject_token='subject-secret', **exchange)]
        for status, reason in (200, None), (401, 'authError'):
            for self.token in tokens:
                self.assertEqual((self.ask('GET', O), self.reason), (status, reason))
            self.ask('POST', '/test/expire')
        wrong = [self.credentials('/sts', subject_token='other', **exchange),
                 self.credentials(refresh_token='other', **refresh), self.ask('GET', METADATA_SERVER)]
        self.assertEqual(wrong, [400, 400, 403])
        long = {'exp': int(time.time()) + 4000}
        for changed in {'signature': b'x'}, {'iss': 'you'}, {'aud': 'x'}, {'scope': 'x'}, long:
            self.assertEqual(self.assertion(**changed), 400)
