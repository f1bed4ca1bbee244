"""Who may do what: the account's key, shared access signatures, tokens, and what a container shows to everyone."""
import base64, datetime, email.utils, hashlib, hmac, time, urllib.parse

from service import Refused, base64_text

ACCOUNT = 'devstoreaccount1'  # the development account of Microsoft's emulators, and its key
KEY = 'Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=='
SIGNED = ('Content-Encoding', 'Content-Language', 'Content-Length', 'Content-MD5', 'Content-Type', 'Date',
          'If-Modified-Since', 'If-Match', 'If-None-Match', 'If-Unmodified-Since', 'Range')
CHALLENGE = {'WWW-Authenticate': 'Bearer authorization_uri=https://login.microsoftonline.com/tenant/oauth2/authorize '
                                 'resource_id=https://storage.azure.com'}


def unauthenticated(detail):
    return Refused(403, 'AuthenticationFailed', 'Server failed to authenticate the request. Make sure the value of '
                   f'Authorization header is formed correctly including the signature. {detail}')


def mismatch(what):
    return Refused(403, f'Authorization{what}Mismatch', 'This request is not authorized to perform this operation '
                   f'using this {what.lower()}.')


def check(request, tokens, permissions, public, exists):
    """Throws unless the request may do what needs one of these letters of a signature's permissions. `public`: it may
    be done without any; `exists`: there is a blob, so that the letter for new ones does not do."""
    scheme, _, value = request.headers.get('Authorization', '').partition(' ')
    if scheme and not request.version:
        raise Refused(400, 'MissingRequiredHeader', 'An HTTP header that is mandatory for this request is not '
                      'specified. HeaderName: x-ms-version')
    if scheme == 'SharedKey':
        check_shared_key(request, value)
    elif scheme == 'Bearer':
        tokens.check(request.headers)
    elif scheme:
        raise Refused(401, 'InvalidAuthenticationInfo', 'Authentication information is not given in the correct '
                      'format. Check the value of Authorization header.')
    elif 'sig' in request.query:
        check_signature(request, permissions, exists)
    elif not public:
        if request.version < '2019-12-12' and request.method in ('GET', 'HEAD'):
            raise Refused(404, 'ResourceNotFound', 'The specified resource does not exist.')
        raise Refused(401, 'NoAuthenticationInformation', 'Server failed to authenticate the request. Please refer to '
                      'the information in the www-authenticate header.')


def digest(text):
    return base64_text(hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256))


def check_shared_key(request, given):
    headers, moment = request.headers, request.headers.get('x-ms-date') or request.headers.get('Date')
    sent = email.utils.parsedate_tz(moment or '')
    if not sent or abs(email.utils.mktime_tz(sent) - time.time()) > 15 * 60:
        raise unauthenticated(f'Request date header too old: {moment!r}')
    fields = {name: headers.get(name, '').strip() for name in SIGNED}
    if fields['Content-Length'] == '0':
        fields['Content-Length'] = ''
    if 'x-ms-date' in headers:
        fields['Date'] = ''
    own = sorted((name.lower(), value.strip()) for name, value in headers.items() if name.lower().startswith('x-ms-'))
    query = sorted((name.lower(), value) for name, value in request.query.items())
    text = '\n'.join([request.method, *fields.values(), *(f'{name}:{value}' for name, value in own),
                      f'/{ACCOUNT}{request.path}' + ''.join(f'\n{name}:{value}' for name, value in query)])
    if not hmac.compare_digest(given, f'{ACCOUNT}:{digest(text)}'):
        raise unauthenticated(f'The MAC signature found in the HTTP request is not the same as any computed signature. '
                              f'Server used following string to sign: {text!r}.')


def moment_of(text):
    """When an ISO 8601 time is, in seconds. Throws unauthenticated."""
    try:
        found = datetime.datetime.fromisoformat(text.replace('Z', '+00:00'))
    except ValueError:
        raise unauthenticated(f'{text!r} is no time') from None
    return found.replace(tzinfo=found.tzinfo or datetime.timezone.utc).timestamp()


def check_signature(request, permissions, exists):
    """A service SAS (of a container or a blob) or an account SAS."""
    query, of_account = request.query, 'ss' in request.query
    version, kind = query.get('sv', ''), query.get('sr')
    if version < '2018-11-09' or not of_account and kind not in ('c', 'b'):
        raise unauthenticated(f'Signature fields not well formed: sv={version} sr={kind}')
    field = lambda *names: [query.get(name, '') for name in names]
    scope = field('ses') if version >= '2020-12-06' else []
    if of_account:
        lines = [ACCOUNT, *field('sp', 'ss', 'srt', 'st', 'se', 'sip', 'spr', 'sv'), *scope, '']
    else:
        path = urllib.parse.unquote(request.path).removeprefix(f'/{ACCOUNT}/').split('/', 1)
        resource = f'/blob/{ACCOUNT}/' + '/'.join(path[:1] if kind == 'c' else path)
        lines = [*field('sp', 'st', 'se'), resource, *field('si', 'sip', 'spr', 'sv', 'sr', 'snapshot'), *scope,
                 *field('rscc', 'rscd', 'rsce', 'rscl', 'rsct')]
    if not hmac.compare_digest(query['sig'], digest('\n'.join(lines))):
        raise unauthenticated(f'Signature did not match. String to sign used was {lines}')
    if not (moment_of(query.get('st') or '2000-01-01') <= time.time() < moment_of(query.get('se', ''))):
        raise unauthenticated(f'Signature not valid in the specified time frame: {field("st", "se")}')
    if query.get('spr') == 'https':
        raise mismatch('Protocol')
    if of_account and 'b' not in query['ss']:
        raise mismatch('Service')
    if of_account and request.level[0] not in query.get('srt', '').replace('s', 'a').replace('o', 'b'):
        raise mismatch('ResourceType')
    held = set(query.get('sp', '')) & set(permissions)
    if not held or not of_account and request.level != 'blob' and permissions != 'l':
        raise mismatch('Permission')
    if held == {'c'} and exists:
        raise Refused(403, 'UnauthorizedBlobOverwrite', 'This request is not authorized to perform blob overwrites.')
