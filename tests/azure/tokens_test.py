"""Who gets an access token of the test server, and who does not. server_test.py runs it."""
import json, os, sys, time, unittest, urllib.error, urllib.parse, urllib.request

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'cloud'))
from rs256 import sign
from server_test import Client

ASSERTION = os.environ.get('AZURE_FEDERATED_TOKEN_FILE', '')
BY_JWT = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'


class Credentials(Client, unittest.TestCase):
    def credentials(self, path, query=(), headers=(), form=None):
        """The token that is given, else the status and the error."""
        address = f'{os.environ["AZURE_AUTHORITY_HOST"]}{path}?{urllib.parse.urlencode(dict(query))}'
        body = None if form is None else urllib.parse.urlencode(form).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(address, body, dict(headers))) as answer:
                return json.load(answer)['access_token']
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)['error']

    def by_form(self, tenant='test-tenant', **changed):
        return self.credentials(f'/{tenant}/oauth2/v2.0/token', form={
            'grant_type': 'client_credentials', 'client_id': 'test-client', 'client_secret': 'client-secret',
            'scope': 'https://storage.azure.com/.default', **changed})

    def by_assertion(self, **changed):
        with open(ASSERTION, encoding='ascii') as file:
            text = file.read()
        if changed:
            claims = {'iss': 'https://kubernetes.test', 'sub': 'system:serviceaccount:ckpt:test',
                      'aud': 'api://AzureADTokenExchange', 'iat': int(time.time()), 'exp': int(time.time()) + 600}
            wrong = changed.pop('signature', b'')
            text = sign(os.path.join(os.path.dirname(ASSERTION), 'key.pem'), {**claims, **changed}, wrong)
        return self.by_form(client_secret='', client_assertion_type=BY_JWT, client_assertion=text)

    def instance(self, headers=('Metadata', 'true'), **changed):
        query = {'api-version': '2018-02-01', 'resource': 'https://storage.azure.com/', **changed}
        return self.credentials('/metadata/identity/oauth2/token', query, [headers])

    def app_service(self, secret='identity-secret', **changed):
        query = {'api-version': '2019-08-01', 'resource': 'https://storage.azure.com/', **changed}
        return self.credentials('/msi/token', query, [('X-IDENTITY-HEADER', secret)])

    def test_each_kind_gives_a_token_that_ends(self):
        tokens = [self.by_form(), self.by_assertion(), self.instance(), self.app_service()]
        for answer in (200, None), (401, 'InvalidAuthenticationInfo'):
            for token in tokens:
                headers = {'Authorization': f'Bearer {token}'}
                self.assertEqual(self.ask('GET', '', 'restype=container', headers, sas=''), answer)
            self.play('expire')

    def test_wrong_ones_get_none(self):
        for found, answer in (
                (self.by_form(client_secret='x'), (401, 'invalid_client')),
                (self.by_form(client_id='x'), (400, 'unauthorized_client')),
                (self.by_form(scope='https://vault.azure.net/.default'), (400, 'invalid_scope')),
                (self.by_form(grant_type='password'), (400, 'unsupported_grant_type')),
                (self.by_form('other'), (400, 'invalid_request')),
                (self.by_assertion(signature=b'x'), (401, 'invalid_client')),
                (self.by_assertion(aud='x'), (401, 'invalid_client')),
                (self.by_assertion(exp=int(time.time()) - 1), (401, 'invalid_client')),
                (self.instance(('x', 'y')), (400, 'invalid_request')),
                (self.instance(resource='x'), (400, 'invalid_resource')),
                (self.instance(client_id='x'), (400, 'invalid_request')),
                (self.app_service('x'), (401, 'Unauthorized')),
                (self.app_service(resource='x'), (400, 'invalid_resource'))):
            self.assertEqual(found, answer)
