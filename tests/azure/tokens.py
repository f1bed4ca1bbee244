"""Who gets an access token of the test server: each way of the Microsoft identity platform."""
import time

import service
from objects import json_answer
from rs256 import claims_of, read_public_key
from service import Refused

RESOURCE = 'https://storage.azure.com'
ISSUER, SUBJECT, AUDIENCE = 'https://kubernetes.test', 'system:serviceaccount:ckpt:test', 'api://AzureADTokenExchange'
BY_JWT = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'


class Tokens(service.Tokens):
    prefix = 'eyJ0'

    def __init__(self, options):
        super().__init__(options)
        self.key = read_public_key(options.public_key)

    def check(self, headers):
        if not self.holds(headers):
            raise Refused(401, 'InvalidAuthenticationInfo', 'Server failed to authenticate the request. Please refer '
                          'to the information in the www-authenticate header.')

    def refused(self, status, error, description):
        return json_answer({'error': error, 'error_description': description}, status)

    def token(self, request, tenant):
        """The client credentials flow of version 2.0, by a secret or by a workload's assertion."""
        form = request.form()
        if tenant != 'test-tenant':
            return self.refused(400, 'invalid_request', f"AADSTS90002: Tenant '{tenant}' not found.")
        if form.get('grant_type') != 'client_credentials':
            return self.refused(400, 'unsupported_grant_type', 'AADSTS70003: The grant type is not supported.')
        if form.get('scope') not in (f'{RESOURCE}/.default', f'{RESOURCE}//.default'):
            return self.refused(400, 'invalid_scope', 'AADSTS1002012: The provided value for scope is not valid.')
        if form.get('client_id') != 'test-client':
            return self.refused(400, 'unauthorized_client', 'AADSTS700016: The application was not found.')
        if form.get('client_assertion_type') == BY_JWT:
            wrong = self.wrong_assertion(form.get('client_assertion', ''))
        else:
            wrong = '' if form.get('client_secret') == 'client-secret' else 'AADSTS7000215: Invalid client secret.'
        if wrong:
            return self.refused(401, 'invalid_client', wrong)
        return json_answer({'token_type': 'Bearer', 'expires_in': self.seconds, 'ext_expires_in': self.seconds,
                            'access_token': self.new()})

    def wrong_assertion(self, text):
        """What is wrong with the token of a workload (a federated credential)."""
        try:
            claims = claims_of(text, self.key)
            if not claims:
                return 'AADSTS700027: Client assertion failed signature validation.'
            if (claims['iss'], claims['sub'], claims['aud']) != (ISSUER, SUBJECT, AUDIENCE):
                return 'AADSTS700213: No matching federated identity record found for presented assertion.'
            now = time.time()
            in_time = claims['iat'] <= now + 300 and now < claims['exp']
            return '' if in_time else 'AADSTS700024: Client assertion is not within its valid time range.'
        except (ValueError, KeyError, TypeError, AttributeError):
            return 'AADSTS50027: JWT token is invalid or malformed.'

    def instance(self, request):
        """The metadata service of a virtual machine."""
        query, headers = request.query, request.headers
        if headers.get('Metadata', '').lower() != 'true' or 'X-Forwarded-For' in headers:
            return self.refused(400, 'invalid_request', 'Required metadata header not specified')
        if not query.get('api-version', '') >= '2018-02-01':
            return self.refused(400, 'invalid_request', 'Required query variable api-version is missing')
        return self.managed(query, expires_in=str(self.seconds))

    def app_service(self, request):
        """The identity endpoint of App Service, and of what does as it does."""
        if request.headers.get('X-IDENTITY-HEADER') != 'identity-secret':
            return self.refused(401, 'Unauthorized', 'The header X-IDENTITY-HEADER is not valid.')
        if request.query.get('api-version') != '2019-08-01':
            return self.refused(400, 'UnsupportedApiVersion', 'The api-version is not supported.')
        return self.managed(request.query)

    def managed(self, query, **more):
        if query.get('resource', '').rstrip('/') != RESOURCE:
            return self.refused(400, 'invalid_resource', f"AADSTS500011: '{query.get('resource')}' was not found.")
        if query.get('client_id', 'test-client') != 'test-client':
            return self.refused(400, 'invalid_request', 'Identity not found')
        return json_answer({'access_token': self.new(), 'expires_on': str(int(time.time()) + self.seconds),
                            'resource': query['resource'], 'token_type': 'Bearer', 'client_id': 'test-client', **more})
