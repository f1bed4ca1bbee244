#!/usr/bin/env python3
"""A strict server of Google Cloud Storage's JSON API for tests: one bucket in memory, with the service's conditions,
checksums, resumable uploads, compose, rewrites, lists by pages and tokens. It says `port N` when it listens.

Where it is not the service: no versions, no XML API, no chunked bodies, and /test/… (see test()) without a token.
"""
import base64, email.utils, json, os, re, secrets, sys, time, urllib.parse

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'cloud'))
import service
from checksums import crc32c_joined
from objects import (Object, Request, check_conditions, check_name, error_answer, invalid, json_answer,
                     multipart, select, selection, text_answer, to_number, to_object, unknown_path)
from service import Joined, Refused
from tokens import Tokens

PIECE = 256 << 10  # all pieces of a resumable upload but the last are multiples of it
MAX_SOURCES = 32
STORAGE = re.compile(r'/(?:(upload|download)/)?storage/v1/b(?:/([^/]+)(?:/o(?:/([^/]+)(/.*)?)?)?)?$')
COPY = re.compile(r'/(rewriteTo|copyTo)/b/([^/]+)/o/([^/]+)$')


class Session:
    """A resumable upload: its condition is judged when it ends, and its end is told again to whoever asks again."""

    def __init__(self, request, bucket, name, resource):
        self.query, self.bucket, self.name, self.resource = request.query, bucket, name, resource
        self.data, self.end, self.cancelled = bytearray(), None, False
        self.total = to_number(request.headers.get('X-Upload-Content-Length'), 'X-Upload-Content-Length')


class Service(service.Service):
    name, request, tokens = 'ckpt-test-gcs', Request, Tokens
    error_answer, unknown_path = staticmethod(error_answer), staticmethod(unknown_path)

    def __init__(self, options):
        super().__init__(options)
        self.buckets, self.sessions, self.rewrites = {options.bucket: service.Names()}, {}, {}
        self.last_generation, self.keep, Object.shows_md5 = 0, None, not options.no_md5

    def failure_reason(self, status):
        return 'rateLimitExceeded' if status == 429 else 'backendError'

    def no_length(self):
        return text_answer(411, 'POST requests require a length')

    def route(self, request):
        where = request.method, request.path
        if where == ('POST', '/token'):
            return self.tokens.token(request)
        if where == ('POST', '/sts'):
            return self.tokens.exchange(request)
        if where[0] == 'POST' and re.fullmatch('/impersonate/[^/]+:generateAccessToken', where[1]):
            return self.tokens.impersonate(request)
        if where == ('GET', '/computeMetadata/v1/instance/service-accounts/default/token'):
            return self.tokens.metadata_server(request)
        if where[0] == 'POST' and where[1].startswith('/test/'):
            return self.test(request)
        found = STORAGE.match(where[1])
        if not found:
            return unknown_path(request)
        answer = self.storage_answer(request, lambda: self.options.anonymous or self.tokens.check(request.headers),
                                     lambda: self.storage(request, *found.groups()))
        if answer[0] == 200 and 'fields' in request.query and 'json' in answer[1].get('Content-Type', ''):
            tree = selection(request.query['fields'])
            answer = json_answer(select(json.loads(answer[2]), tree))
        return answer

    def storage(self, request, kind, bucket, name, action):
        method, whole = request.method, name is None and request.path.endswith('/o')
        bucket, name = bucket and urllib.parse.unquote(bucket), name and check_name(urllib.parse.unquote(name))
        if method == 'POST' and not kind and bucket is None:
            return self.make_bucket(to_object(request.body))
        if bucket not in self.buckets:
            raise Refused(404, 'notFound', 'The specified bucket does not exist.')
        if kind == 'upload' and whole and 'upload_id' in request.query and method in ('POST', 'PUT', 'DELETE'):
            return self.resume(request)
        if kind == 'upload' and whole and method == 'POST':
            return self.upload(request, bucket)
        if method == 'GET' and name and not action and (not kind or kind == 'download' and request.media):
            return self.get(request, bucket, name)
        if kind:
            return unknown_path(request)
        if method == 'GET' and not name:
            return self.list(request, bucket) if whole else json_answer({'kind': 'storage#bucket', 'name': bucket})
        if method == 'DELETE' and name and not action:
            return self.delete(request, bucket, name)
        if method == 'POST' and action == '/compose':
            return self.compose(request, bucket, name)
        if method == 'POST' and action and (copy := COPY.fullmatch(action)):
            return self.copy(request, bucket, name, copy[1], *map(urllib.parse.unquote, copy.groups()[1:]))
        return unknown_path(request)

    # Objects

    def make_bucket(self, resource):
        name = resource.get('name')
        if not re.fullmatch(r'[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]', str(name)):
            raise invalid(f"Invalid bucket name: '{name}'")
        if name in self.buckets:
            raise Refused(409, 'conflict', 'Your previous request to create the named bucket succeeded.')
        self.buckets[name] = service.Names()
        return json_answer({'kind': 'storage#bucket', 'name': name})

    def find(self, bucket, name, generation=None):
        live = self.buckets[bucket].get(name)
        if not live or generation not in (None, live.generation):
            raise Refused(404, 'notFound', f'No such object: {bucket}/{name}')
        return live

    def check_held(self, live):
        if live and 'held-by-policy' in live.name:
            raise Refused(403, 'retentionPolicyNotMet',
                          f"Object '{live.bucket}/{live.name}' is subject to bucket's retention policy and cannot be "
                          "deleted or overwritten until its retention period has expired.")

    def put(self, new, query):
        """The one place where an object comes to be, if the conditions of the query hold."""
        live = self.buckets[new.bucket].get(new.name)
        check_conditions(query, live)
        self.check_held(live)
        self.last_generation = max(self.last_generation + 1, int(time.time() * 1e6))
        new.stamp(self.last_generation)
        self.buckets[new.bucket][new.name] = new
        return new

    def get(self, request, bucket, name):
        live = self.find(bucket, name, request.number('generation'))
        check_conditions(request.query, live, read=True)
        if not request.media:
            return json_answer(live.resource(), 200, {'ETag': live.etag})
        headers = {'Content-Type': live.content_type or 'application/octet-stream', 'ETag': live.etag,
                   'X-Goog-Generation': str(live.generation), 'X-Goog-Metageneration': '1',
                   'X-Goog-Storage-Class': 'STANDARD', 'X-Goog-Stored-Content-Encoding': 'identity',
                   'X-Goog-Stored-Content-Length': str(len(live.data)),
                   'Last-Modified': email.utils.formatdate(live.time, usegmt=True)}
        size = len(live.data)
        wanted = re.fullmatch(r'bytes=(\d*)-(\d*)', request.headers.get('Range', '').strip())
        if not wanted or not any(wanted.groups()):  # as there: what is no range asks for all
            return 200, {**headers, 'X-Goog-Hash': live.hashes()}, Joined([live.data])
        first, last = wanted.groups()
        begin = int(first) if first else max(size - int(last), 0)
        end = min(int(last) + 1, size) if first and last else size
        if first and last and int(last) < begin:
            return 200, {**headers, 'X-Goog-Hash': live.hashes()}, Joined([live.data])
        if begin >= size:
            return text_answer(416, 'Request range not satisfiable', {'Content-Range': f'bytes */{size}'})
        if self.options.range_hashes:
            headers['X-Goog-Hash'] = live.hashes()
        return 206, {**headers, 'Content-Range': f'bytes {begin}-{end - 1}/{size}'}, Joined([live.data])[begin:end]

    def delete(self, request, bucket, name):
        live = self.find(bucket, name, request.number('generation'))
        check_conditions(request.query, live)
        self.check_held(live)
        del self.buckets[bucket][name]
        return 204, {}, b''

    def list(self, request, bucket):
        query, page = request.query, self.options.page
        prefix, delimiter = query.get('prefix', ''), query.get('delimiter', '')
        try:
            after = base64.urlsafe_b64decode(query.get('pageToken', '')).decode()
        except ValueError:
            raise invalid('Invalid Value') from None
        limit = max(min(request.number('maxResults') or page, page), 1)
        items, prefixes, last = [], [], None
        for name, live in self.buckets[bucket].under(prefix):
            cut = name.find(delimiter, len(prefix)) if delimiter else -1
            entry = name[:cut + len(delimiter)] if cut >= 0 else name
            if (name < query.get('startOffset', '') or after and entry <= after
                    or query.get('endOffset') and name >= query['endOffset'] or prefixes and prefixes[-1] == entry):
                continue
            if len(items) + len(prefixes) == limit:
                token = base64.urlsafe_b64encode(last.encode()).decode()
                break
            last = entry
            prefixes.append(entry) if cut >= 0 else items.append(live.resource())
        else:
            token = None
        answer = {'kind': 'storage#objects', 'nextPageToken': token, 'prefixes': prefixes, 'items': items}
        return json_answer({key: value for key, value in answer.items() if value})

    # Uploads

    def upload(self, request, bucket):
        query, headers, data = request.query, request.headers, request.body
        kind, resource = query.get('uploadType'), {}
        if kind == 'media':
            resource['contentType'] = headers.get('Content-Type')
        elif kind == 'multipart':
            resource, data = multipart(request)
        elif kind == 'resumable':
            resource = to_object(data, headers.get('Content-Type', ''))
            resource.setdefault('contentType', headers.get('X-Upload-Content-Type'))
        else:
            raise invalid(f'Invalid uploadType: {kind}')
        name = check_name(query.get('name') or resource.get('name'))
        if kind == 'resumable':
            return self.begin(request, bucket, name, resource)
        return json_answer(self.insert(bucket, name, data, resource, query, headers).resource())

    def insert(self, bucket, name, data, resource, query, headers):
        new = Object(bucket, name, data, resource)
        new.check(resource)
        new.check_header(headers.get('X-Goog-Hash'))
        return self.put(new, query)

    def begin(self, request, bucket, name, resource):
        number = secrets.token_hex(16)
        self.sessions[number] = Session(request, bucket, name, resource)
        query = urllib.parse.urlencode({**request.query, 'upload_id': number})
        location = f'http://{request.headers["Host"]}{request.path}?{query}'
        return text_answer(200, '', {'Location': location, 'X-GUploader-UploadID': number})

    def resume(self, request):
        session = self.sessions.get(request.query['upload_id'])
        if not session:
            return unknown_path(request)
        if session.cancelled or request.method == 'DELETE':
            session.cancelled, session.data = True, bytearray()
            return text_answer(499, '')
        if not session.end and self.take(session, request):
            try:
                headers, data = request.headers, bytes(session.data)
                new = self.insert(session.bucket, session.name, data, session.resource, session.query, headers)
                session.end = json_answer(new.resource())
            except Refused as refused:
                session.end = error_answer(refused)
            session.data = bytearray()
        return session.end or self.progress(session, request)

    def take(self, session, request):
        """Adds what the request brings to the upload, and says whether it is whole."""
        body, have = request.body, len(session.data)
        given = request.headers.get('Content-Range', f'bytes 0-{len(body) - 1}/{len(body)}' if body else 'bytes */0')
        found = re.fullmatch(r'bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)', given)
        if not found:
            raise invalid(f'Invalid Content-Range: {given}')
        first, last, total = (int(text) if text and text != '*' else None for text in found.groups())
        if total is not None and session.total not in (None, total):
            raise invalid(f'The upload was to have {session.total} bytes, not {total}')
        session.total = total if total is not None else session.total
        if len(body) != (0 if first is None else last + 1 - first):
            raise invalid(f'Invalid request. There were {len(body)} byte(s) in the request body, not as many as the '
                          f'Content-Range header {given} says.')
        if first is not None:
            if session.total is not None and last >= session.total:
                raise invalid(f'Content-Range {given} goes past the end of {session.total} bytes')
            if first > have:
                raise Refused(503, 'backendError', f'The upload has {have} bytes, so that they cannot go on at {first}')
            if last + 1 != session.total and len(body) % PIECE:
                raise invalid(f'Pieces but the last have a multiple of {PIECE} bytes, and this one {len(body)}')
            keep, self.keep = self.keep, None  # the service may keep less than it got
            session.data += body[have - first:keep]
        elif total is not None and total < have:
            raise invalid(f'The upload has {have} bytes already, not {total}')
        return total is not None and total == len(session.data)

    def progress(self, session, request):
        headers = {'Range': f'bytes=0-{len(session.data) - 1}'} if session.data else {}
        if request.headers.get('X-GUploader-No-308') == 'yes':
            return text_answer(200, '', {**headers, 'X-HTTP-Status-Code-Override': '308'})
        return text_answer(308, '', headers)

    # Copies

    def compose(self, request, bucket, name):
        order = to_object(request.body, request.headers.get('Content-Type', ''))
        sources, resource = order.get('sourceObjects') or [], order.get('destination') or {}
        if not sources:
            raise Refused(400, 'required', 'You must provide at least one source component.')
        if len(sources) > MAX_SOURCES:
            raise invalid(f'The number of source components provided ({len(sources)}) exceeds the maximum '
                          f'({MAX_SOURCES})')
        found = []
        for source in sources:
            if source.get('name') not in self.buckets[bucket]:
                raise Refused(404, 'notFound', f"Object {source.get('name')} (generation: 0) not found.")
            live = self.find(bucket, source.get('name'), to_number(source.get('generation'), 'generation'))
            check_conditions(source.get('objectPreconditions') or {}, live)
            found.append(live)
        new = Object(bucket, name, Joined([live.data for live in found]), resource,
                     sum(live.components or 1 for live in found),
                     crc32c_joined([(live.crc, len(live.data)) for live in found]))
        new.check({'crc32c': resource.get('crc32c')})
        self.put(new, request.query)
        for live in found if order.get('deleteSourceObjects') else []:
            if self.buckets[bucket].get(live.name) is live:  # and neither the new one nor gone already
                del self.buckets[bucket][live.name]
        return json_answer(new.resource())

    def copy(self, request, bucket, name, how, to_bucket, to_name):
        if to_bucket not in self.buckets:
            raise Refused(404, 'notFound', 'The specified bucket does not exist.')
        live = self.find(bucket, name, request.number('sourceGeneration'))
        check_conditions(request.query, live, 'Source')
        check_conditions(request.query, self.buckets[to_bucket].get(to_name))
        resource = to_object(request.body, request.headers.get('Content-Type', ''))
        if 'bucket' in resource and not (resource.get('name') and resource.get('contentType')):
            raise Refused(400, 'required', 'Required')
        size, limit = len(live.data), request.number('maxBytesRewrittenPerCall') or self.options.rewrite_bytes
        if 'maxBytesRewrittenPerCall' in request.query and limit % (1 << 20):
            raise invalid('maxBytesRewrittenPerCall must be a multiple of 1 MiB')
        what, done, token = (bucket, name, live.generation, to_bucket, to_name, resource), 0, None
        if 'rewriteToken' in request.query:
            token = request.query['rewriteToken']
            before, done = self.rewrites.get(token, (None, 0))
            if before != what:
                raise invalid('Invalid rewrite token')
        done = min(done + min(limit, self.options.rewrite_bytes), size) if how == 'rewriteTo' else size
        answer = {'kind': 'storage#rewriteResponse', 'totalBytesRewritten': str(done), 'objectSize': str(size),
                  'done': done == size}
        if done < size:
            token = token or secrets.token_urlsafe(32)
            self.rewrites[token] = what, done
            return json_answer({**answer, 'rewriteToken': token})
        # What is given replaces all that the source has, its type too.
        resource = resource or {'metadata': live.metadata, 'contentType': live.content_type}
        new = self.put(Object(to_bucket, check_name(to_name), live.data, resource, live.components, live.crc),
                       request.query)
        self.rewrites.pop(token, None)
        return json_answer({**answer, 'resource': new.resource()} if how == 'rewriteTo' else new.resource())

    # Tests

    def test(self, request):
        """/test/keep?bytes=N: of the next piece of a resumable upload only N bytes are kept."""
        if request.path != '/test/keep':
            return super().test(request)
        self.keep = request.number('bytes')
        return 204, {}, b''


def main():
    parser = service.parser(__doc__)
    parser.add_argument('--bucket', default='ckpt-test')
    parser.add_argument('--page', type=int, default=1000, help='names and prefixes of a page of a list, at most')
    parser.add_argument('--rewrite-bytes', type=int, default=64 << 20, help='what one call of rewriteTo copies')
    parser.add_argument('--range-hashes', action='store_true', help='ranges come with the hash of the whole object')
    parser.add_argument('--anonymous', action='store_true', help='no token is needed')
    parser.add_argument('--account', default='tester@ckpt-test.iam.gserviceaccount.com')
    service.serve(Service(parser.parse_args()))


if __name__ == '__main__':
    main()
