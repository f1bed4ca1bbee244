"""What the test server is made of: requests, answers and refusals in the service's form, blobs and conditions."""
import base64, email.utils, hashlib, itertools, json, re, time, urllib.parse
from xml.sax.saxutils import escape

import service
from checksums import crc64nvme
from service import Refused, base64_text

MAX_METADATA = 8 << 10
PROPERTIES = 'Cache-Control', 'Content-Type', 'Content-Encoding', 'Content-Language', 'Content-Disposition'
ETAGS = itertools.count(0x8DE000000000000)
NO_XML = re.compile('[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]')  # no XML can hold these


class Request(service.Request):
    def __init__(self, *parts):
        super().__init__(*parts)
        self.version = self.headers.get('x-ms-version') or self.query.get('sv', '')
        path = [urllib.parse.unquote(part) for part in self.path.split('/', 3)[1:]]
        self.account, self.container, self.name = path + [''] * (3 - len(path))
        self.level = 'blob' if self.name else 'container' if self.container else 'account'

    def flag(self, name):
        return self.headers.get(name, '').lower() == 'true'


def missing(name):
    return Refused(400, 'MissingRequiredHeader', 'An HTTP header that is mandatory for this request is not specified. '
                   f'HeaderName: {name}')


def invalid_header(name, value):
    return Refused(400, 'InvalidHeaderValue', 'The value for one of the HTTP headers is not in the correct format. '
                   f'HeaderName: {name} HeaderValue: {value}')


def invalid_query(name, value):
    return Refused(400, 'InvalidQueryParameterValue', 'Value for one of the query parameters specified in the request '
                   f'URI is invalid. QueryParameterName: {name} QueryParameterValue: {value}')


def md5_of(data):
    return base64_text(hashlib.md5(data).digest())


def crc64_of(data):
    """S3's CRC64NVME, but with its bytes the other way round."""
    return base64_text(crc64nvme(data).to_bytes(8, 'little'))


def decoded(text):
    """The bytes that base64 stands for, or None."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


def check_sums(data, md5, crc64):
    """Compares the checksums that somebody gave with the real ones; returns the header of the one that answers."""
    if md5 and crc64:
        raise Refused(400, 'BothCrc64AndMd5HeaderPresent', 'Both x-ms-content-crc64 header and Content-MD5 header are '
                      'present.')
    if md5:
        if len(decoded(md5) or b'') != 16:
            raise Refused(400, 'InvalidMd5', 'The MD5 value specified in the request is invalid. The MD5 value must be '
                          '128 bits and Base64-encoded.')
        if md5 != md5_of(data):
            raise Refused(400, 'Md5Mismatch', 'The MD5 value specified in the request did not match with the MD5 value '
                          'calculated by the server.')
        return {'Content-MD5': md5}
    real = crc64_of(data)
    if crc64 and len(decoded(crc64) or b'') < 8:
        raise invalid_header('x-ms-content-crc64', crc64)
    if crc64 and crc64 != real:
        raise Refused(400, 'Crc64Mismatch', 'The CRC64 value specified in the request did not match with the CRC64 '
                      'value calculated by the server.')
    return {'x-ms-content-crc64': real}


def metadata_of(headers):
    found = {name[10:]: value for name, value in headers.items() if name.lower().startswith('x-ms-meta-')}
    for name, value in found.items():
        if not re.fullmatch(r'[A-Za-z_]\w*', name, re.ASCII) or not value.isascii():
            raise Refused(400, 'InvalidMetadata', 'The metadata specified is invalid. It has characters that are not '
                          'permitted.')
    if sum(len(name + value) for name, value in found.items()) > MAX_METADATA:
        raise Refused(400, 'MetadataTooLarge', 'The size of the specified metadata exceeds the maximum size permitted.')
    return found


class Blob:
    """A block blob. `blocks`: the ids of its blocks, each with where its bytes begin and end."""

    def __init__(self, data, metadata, properties, md5=None, blocks=()):
        self.data, self.metadata, self.md5, self.blocks = data, metadata, md5, dict(blocks)
        self.properties = {'Content-Type': 'application/octet-stream', **properties}
        self.created = time.time()
        self.stamp()

    def stamp(self):
        self.etag, self.time = f'"0x{next(ETAGS):X}"', time.time()

    def is_folder(self):
        return self.metadata.get('hdi_isfolder') == 'true'

    def changed(self):
        return {'ETag': self.etag, 'Last-Modified': http_date(self.time)}

    def headers(self):
        return {**self.properties, **self.changed(), 'Accept-Ranges': 'bytes', 'x-ms-blob-type': 'BlockBlob',
                'x-ms-creation-time': http_date(self.created), 'x-ms-lease-status': 'unlocked',
                'x-ms-lease-state': 'available', 'x-ms-server-encrypted': 'true',
                **{f'x-ms-meta-{name}': value for name, value in self.metadata.items()}}


class Container:
    def __init__(self, public=None):
        self.blobs, self.staged, self.public, self.changed = service.Names(), {}, public, Blob(b'', {}, {}).changed()


def http_date(moment):
    return email.utils.formatdate(moment, usegmt=True)


def properties_of(headers):
    """The properties that a request gives to a blob, by x-ms-blob-… or by their own names."""
    own = {name: headers.get('x-ms-blob-' + name.lower()) or headers.get(name) for name in PROPERTIES}
    return {name: value for name, value in own.items() if value}


def check_conditions(headers, live, prefix='', read=False):
    """The conditions of a request on a blob, or None where there is none."""
    names = 'If-Match', 'If-None-Match', 'If-Modified-Since', 'If-Unmodified-Since'
    match, other, since, until = (headers.get(prefix + name) for name in names)
    code = 'SourceConditionNotMet' if prefix else 'ConditionNotMet'
    failed = Refused(412, code, 'The condition specified using HTTP conditional header(s) is not met.')
    same = lambda tag: live is not None and tag.strip('"') in ('*', live.etag.strip('"'))
    at = lambda text: email.utils.mktime_tz(email.utils.parsedate_tz(text))
    if match and not same(match):
        raise failed
    if other == '*' and live and not read:
        raise Refused(409, 'BlobAlreadyExists', 'The specified blob already exists.')
    if other and same(other) or since and not other and live and int(live.time) <= at(since):
        raise Refused(304, code, '') if read else failed
    if until and not match and live and int(live.time) > at(until):
        raise failed


def parse_range(text, size):
    """The begin and end that a range header wants; a range that is none wants all."""
    found = re.fullmatch(r'bytes=(\d+)-(\d*)', text or '')
    if not found or found[2] and int(found[2]) < int(found[1]):
        return None
    if int(found[1]) >= size:
        raise Refused(416, 'InvalidRange', 'The range specified is invalid for the current size of the resource.')
    return int(found[1]), min(int(found[2]) + 1, size) if found[2] else size


def name_tag(name):
    """As there, a name that no XML can hold comes percent-encoded."""
    if NO_XML.search(name):
        return f'<Name Encoded="true">{urllib.parse.quote(name)}</Name>'
    return f'<Name>{escape(name)}</Name>'


def xml_answer(body, status=200, headers=()):
    """As there, an XML begins with a byte order mark."""
    text = '\ufeff<?xml version="1.0" encoding="utf-8"?>' + body
    return status, {'Content-Type': 'application/xml', **dict(headers)}, text.encode()


def json_answer(value, status=200):
    return status, {'Content-Type': 'application/json; charset=utf-8'}, json.dumps(value).encode()


def error_answer(refused, headers=()):
    headers = {'x-ms-error-code': refused.reason, **dict(headers)}
    if refused.status == 304:
        return 304, headers, b''
    return xml_answer(f'<Error><Code>{refused.reason}</Code><Message>{escape(refused.message)}\nTime:'
                      f'{time.strftime("%Y-%m-%dT%H:%M:%S.0000000Z", time.gmtime())}</Message></Error>', refused.status,
                      headers)
