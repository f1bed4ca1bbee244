"""What the test servers of object stores share: requests, refusals, failures on demand, tokens that end, and HTTP."""
import argparse, base64, bisect, http.server, secrets, sys, threading, time, traceback, urllib.parse


class Refused(Exception):
    def __init__(self, status, reason, message):
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


class Lost(Exception):
    """The connection is to be closed without an answer."""


class Names(dict):
    """Objects by their names. A list of those under a prefix looks at no others: thousands of tests share a bucket."""
    def __init__(self):
        super().__init__()
        self.order = []

    def __setitem__(self, name, value):
        if name not in self:
            bisect.insort(self.order, name)
        super().__setitem__(name, value)

    def __delitem__(self, name):
        super().__delitem__(name)
        del self.order[bisect.bisect_left(self.order, name)]

    def under(self, prefix):
        first = end = bisect.bisect_left(self.order, prefix)
        while end < len(self.order) and self.order[end].startswith(prefix):
            end += 1
        return [(name, self[name]) for name in self.order[first:end]]


def base64_text(data):
    return base64.b64encode(data).decode()


class Joined:
    """Bytes in pieces, as of a composition: none is copied."""

    def __init__(self, parts):
        self.pieces = [piece for part in parts for piece in (part.pieces if isinstance(part, Joined) else [part])]
        self.size = sum(map(len, self.pieces))

    def __len__(self):
        return self.size

    def __bytes__(self):
        return b''.join(self.pieces)

    def __getitem__(self, part):
        (first, stop, _), found, at = part.indices(self.size), [], 0
        for piece in self.pieces:
            found.append(memoryview(piece)[max(first - at, 0):max(stop - at, 0)])
            at += len(piece)
        return Joined(filter(len, found))


class Request:
    def __init__(self, method, target, headers, body):
        self.method, self.headers, self.body = method, headers, body
        self.path, _, query = target.partition('?')
        self.target = urllib.parse.unquote(target)
        self.query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))

    def form(self):
        return dict(urllib.parse.parse_qsl(self.body.decode()))


class Tokens:
    """Access tokens until they end. A subclass says who gets one, and refuses what check() finds."""
    prefix = ''

    def __init__(self, options):
        self.live, self.seconds = {}, options.token_seconds

    def new(self):
        token = self.prefix + secrets.token_hex(24)
        self.live[token] = time.time() + self.seconds
        return token

    def holds(self, headers):
        kind, _, token = headers.get('Authorization', '').partition(' ')
        return kind == 'Bearer' and self.live.get(token, 0) > time.time()


class Service:
    """One service at a time answers one request. A subclass has route(), error_answer(), unknown_path(),
    no_length() and the attributes below."""
    name, request, tokens = 'ckpt-test', Request, Tokens

    def __init__(self, options):
        self.options, self.tokens, self.failures, self.lock = options, self.tokens(options), [], threading.Lock()

    def answer(self, request):
        with self.lock:
            try:
                return self.route(request)
            except Refused as refused:
                return self.error_answer(refused, request)

    def test(self, request):
        """/test/expire: no token is good any more. /test/fail?status=S&count=N[&match=TEXT][&after=1]: the next N
        storage requests whose URL has TEXT fail so (status=0: no answer); after=1: they are carried out and the answer
        is lost."""
        number = {name: int(request.query.get(name) or 0) for name in ('status', 'count', 'after')}
        if request.path == '/test/expire':
            self.tokens.live.clear()
        elif request.path == '/test/fail':
            self.failures.append({**number, 'count': number['count'] or 1, 'match': request.query.get('match', '')})
        else:
            return self.unknown_path(request)
        return 204, {}, b''

    def storage_answer(self, request, authorize, storage):
        """What storage() answers to the one whom authorize() lets in, unless a test asked for a failure."""
        failure = self.next_failure(request)
        if failure and not failure['after']:
            if not failure['status']:
                raise Lost
            raise Refused(failure['status'], self.failure_reason(failure['status']), 'A test asked for this answer.')
        authorize()
        try:
            return storage()
        finally:
            if failure:
                raise Lost

    def next_failure(self, request):
        for failure in self.failures:
            if failure['match'] in request.target:
                failure['count'] -= 1
                self.failures = [other for other in self.failures if other['count'] > 0]
                return failure
        return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version, disable_nagle_algorithm, service = 'HTTP/1.1', True, None
    responses = {**http.server.BaseHTTPRequestHandler.responses, 308: ('Resume Incomplete', ''),
                 499: ('Client Closed Request', '')}

    def handle_any(self):
        body = self.read_body()
        if body is None:  # as there: a body that has no length is not read
            self.close_connection = True
            return self.send(*self.service.no_length())
        try:
            self.send(*self.service.answer(self.service.request(self.command, self.path, self.headers, body)))
        except Lost:
            self.close_connection = True
        except Exception:  # a fault of this server
            traceback.print_exc()
            self.send(500, {'Content-Type': 'text/plain'}, traceback.format_exc().encode())
    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = handle_any

    def read_body(self):
        if 'Content-Length' not in self.headers:
            return None if self.command in ('POST', 'PUT') else b''
        body = bytearray(int(self.headers['Content-Length']))
        if self.rfile.readinto(body) < len(body):
            raise ConnectionError('the client went away')  # a torn request is none
        return body

    def send(self, status, headers, body):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status not in (204, 304):
            self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        if status not in (204, 304) and self.command != 'HEAD':
            for piece in getattr(body, 'pieces', [body]):
                self.wfile.write(piece)

    def version_string(self):
        return self.service.name

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 128

    def handle_error(self, *_):
        if not isinstance(sys.exc_info()[1], ConnectionError):
            traceback.print_exc()


def parser(description):
    """The options that all test servers have."""
    found = argparse.ArgumentParser(description=description.split('\n')[0])
    found.add_argument('--port', type=int, default=0)
    found.add_argument('--token-seconds', type=int, default=3600)
    found.add_argument('--no-md5', action='store_true', help='objects have none, since it takes longer than all else')
    found.add_argument('--public-key', help="the PEM file with the key that verifies assertions")
    return found


def serve(service, handler=Handler):
    handler.service = service
    server = Server(('127.0.0.1', service.options.port), handler)
    print(f'port {server.server_port}', flush=True)
    server.serve_forever()
