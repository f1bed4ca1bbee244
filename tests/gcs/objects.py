"""What the test server is made of: requests, answers and refusals in the service's form, objects and conditions."""
import datetime, hashlib, json, re, struct, time

import service
from checksums import crc32c
from service import Refused, base64_text

MAX_METADATA = 8 << 10


def invalid(message):
    return Refused(400, 'invalid', message)


def condition_failed(status=412):
    return Refused(status, 'conditionNotMet', 'At least one of the pre-conditions you specified did not hold.')


class Request(service.Request):
    def __init__(self, *parts):
        super().__init__(*parts)
        self.media = self.method == 'GET' and self.query.get('alt') == 'media'

    def number(self, name):
        return to_number(self.query.get(name), name)


def to_number(text, name):
    if text is None:
        return None
    if not re.fullmatch(r'-?\d+', str(text)):
        raise invalid(f'Invalid value for {name}: {text}')
    return int(text)


def to_object(body, content_type='application/json'):
    """The JSON object that a body is; an empty body is an empty one."""
    if not body:
        return {}
    try:
        value = json.loads(body)
    except ValueError:
        raise Refused(400, 'parseError', 'Parse Error') from None
    if not isinstance(value, dict) or not content_type.lower().startswith('application/json'):
        raise Refused(400, 'parseError', 'Parse Error')
    return value


def multipart(request):
    """The resource and the bytes of a multipart/related body. As there, the first boundary ends the bytes."""
    kind = re.match(r'multipart/related;.*boundary=("?)([^";]+)\1', request.headers.get('Content-Type', ''), re.I)
    if not kind:
        raise Refused(400, 'badContent', 'Multipart uploads need the type multipart/related and a boundary')
    text, parts = request.body, []  # none of which is copied
    line = b'\r\n' if text[:text.find(b'\n')].endswith(b'\r') else b'\n'  # gcsfs' ends so, and is taken there
    end = line + b'--' + kind[2].encode()
    at = -len(line)  # before the first boundary no line has to end
    for _ in range(2):
        start, after = text.find(line * 2, max(at, 0)), at + len(end)
        follows = text.startswith((end + line)[max(-at, 0):], max(at, 0))
        if not follows or start < 0 or (stop := text.find(end, start + len(line))) < 0:
            raise Refused(400, 'badContent', 'Malformed multipart body.')
        fields = text[after:start].decode('latin-1').split(line.decode())[1:]
        fields = {name.strip().lower(): value.strip() for name, _, value in (f.partition(':') for f in fields)}
        parts.append((fields.get('content-type', ''), memoryview(text)[start + 2 * len(line):stop]))
        at = stop
    if not text.startswith(end + b'--', at):
        raise Refused(400, 'badContent', 'Malformed multipart body.')
    resource = to_object(bytes(parts[0][1]), parts[0][0])
    given, wanted = parts[1][0], resource.get('contentType')
    if given and wanted and given != wanted:
        raise invalid(f'Content-Type specified in the upload ({given}) does not match Content-Type specified in '
                      f'metadata ({wanted}).')
    return {**({'contentType': given} if given else {}), **resource}, parts[1][1]


class Object:
    shows_md5 = True

    def __init__(self, bucket, name, data, resource, components=0, crc=None):
        self.bucket, self.name, self.data, self.components = bucket, name, data, components
        self.metadata = resource.get('metadata') or {}
        self.content_type = resource.get('contentType')
        if not isinstance(self.metadata, dict) or not all(isinstance(value, str) for value in self.metadata.values()):
            raise invalid('Invalid value for metadata')
        if sum(len((key + value).encode()) for key, value in self.metadata.items()) > MAX_METADATA:
            raise invalid(f'The metadata is larger than {MAX_METADATA} bytes')
        self.crc = crc32c(data) if crc is None else crc
        self.crc32c = base64_text(struct.pack('>I', self.crc))
        with_md5 = self.shows_md5 and not components
        self.md5 = base64_text(hashlib.md5(data).digest()) if with_md5 else None
        self.generation = 0  # until it is there

    def stamp(self, generation):
        self.generation = generation
        self.time = time.time()
        number, coded = generation, b'\x08'
        while number:
            coded += bytes([number & 127 | (128 if number > 127 else 0)])
            number >>= 7
        self.etag = base64_text(coded + b'\x10\x01')

    def hashes(self):
        return f'crc32c={self.crc32c}' + (f',md5={self.md5}' if self.md5 else '')

    def check(self, given):
        """Compares the checksums that somebody gave with the real ones."""
        for name, key, real in ('CRC32C', 'crc32c', self.crc32c), ('MD5 hash', 'md5Hash', self.md5):
            if given.get(key) is not None and given[key] != real:
                raise invalid(f'Provided {name} "{given[key]}" doesn\'t match calculated {name} "{real}".')

    def check_header(self, header):
        given = dict(part.strip().partition('=')[::2] for part in (header or '').split(',') if part)
        self.check({'crc32c': given.get('crc32c'), 'md5Hash': given.get('md5')})

    def resource(self):
        moment = datetime.datetime.fromtimestamp(self.time, datetime.timezone.utc)
        moment = moment.isoformat(timespec='milliseconds').replace('+00:00', 'Z')
        answer = {'kind': 'storage#object', 'id': f'{self.bucket}/{self.name}/{self.generation}', 'name': self.name,
                  'bucket': self.bucket, 'generation': str(self.generation), 'metageneration': '1',
                  'storageClass': 'STANDARD', 'size': str(len(self.data)), 'crc32c': self.crc32c, 'etag': self.etag,
                  'timeCreated': moment, 'updated': moment}
        some = {'contentType': self.content_type, 'md5Hash': self.md5, 'metadata': self.metadata,
                'componentCount': self.components}
        return answer | {key: value for key, value in some.items() if value}


def check_conditions(query, live, source='', read=False):
    """The conditions of a request on the live object, or None where there is none."""
    generation, metageneration = (live.generation, 1) if live else (0, None)
    for name, real in ('Generation', generation), ('Metageneration', metageneration):
        match, other = f'if{source}{name}Match', f'if{source}{name}NotMatch'
        if match in query and to_number(query[match], match) != real:
            raise condition_failed()
        if other in query and to_number(query[other], other) == real:
            raise condition_failed(304 if read else 412)


def check_name(name):
    if not name:
        raise Refused(400, 'required', 'Required')
    if len(name.encode()) > 1024 or name in ('.', '..') or re.search('[\r\n]', name):
        raise invalid(f'Invalid object name: {name!r}')
    return name


def selection(fields):
    """The tree that a partial response's mask names: `a,b(c,d),e/f`."""
    def merged(pairs):
        tree = {}
        for word, inner in pairs:
            tree.setdefault(word, {}).update(inner)
        return tree
    text = fields
    found = '/' in text
    while found:  # a/b is a(b), from the innermost on
        text, found = re.subn(r'([\w*-]+)/([\w*-]+(?:\([^/()]*\))?)(?![\w*/(-])', r'\1(\2)', text)
    text = re.sub(r'([\w*-]+)(\()?', lambda word: f'"{word[1]}":' + ('{' if word[2] else '{}'), text)
    try:
        return json.loads('{' + text.replace(')', '}') + '}', object_pairs_hook=merged)
    except ValueError:
        raise invalid(f'Invalid field selection {fields}') from None


def select(value, tree):
    """The part of a JSON value that a mask's tree names."""
    if not tree:
        return value
    if isinstance(value, list):
        return [select(item, tree) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: select(item, tree.get(key, tree.get('*'))) for key, item in value.items()
            if key in tree or '*' in tree}


def json_answer(value, status=200, headers=()):
    body = json.dumps(value, indent=1).encode()
    return status, {'Content-Type': 'application/json; charset=UTF-8', **dict(headers)}, body


def text_answer(status, text, headers=()):
    return status, {'Content-Type': 'text/html; charset=UTF-8', **dict(headers)}, text.encode()


def unknown_path(request):
    return text_answer(404, f'<!DOCTYPE html>\n<title>Error 404 (Not Found)!!1</title>\n<p>The requested URL '
                            f'<code>{request.path}</code> was not found on this server.\n')


def error_answer(refused, request=None):
    """An error in the service's form; an answer to alt=media has only the words."""
    headers = {'WWW-Authenticate': 'Bearer realm="https://accounts.google.com/"'} if refused.status == 401 else {}
    if refused.status == 304:
        return 304, {}, b''
    if request and request.media:
        return text_answer(refused.status, refused.message, headers)
    error = {'message': refused.message, 'domain': 'global', 'reason': refused.reason}
    return json_answer({'error': {'code': refused.status, 'message': refused.message, 'errors': [error]}},
                       refused.status, headers)
