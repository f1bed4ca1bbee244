#!/usr/bin/env python3
"""A strict server of Azure Blob Storage for tests: one account in memory, with the service's conditions, checksums,
blocks, copies, lists by pages, keys, signatures and tokens. It says `port N` when it listens.

Where it is not the service: no leases, snapshots, versions, tags, append and page blobs, batches, structured bodies,
signatures by a user's delegation key, and /test/… (see test()) without a key.
"""
import os, re, sys, uuid, xml.etree.ElementTree

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'cloud'))
import access, service
from objects import (Blob, Container, Request, check_conditions, check_sums, crc64_of, decoded, error_answer, http_date,
                     invalid_header, invalid_query, md5_of, metadata_of, missing, name_tag, parse_range, properties_of,
                     xml_answer)
from service import Joined, Refused, base64_text
from tokens import Tokens
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

MAX_BLOCKS, MAX_SUMMED, MAX_PAGE = 50_000, 4 << 20, 5000
VERSIONS = '''
2015-02-21 2015-04-05 2015-07-08 2015-12-11 2016-05-31 2017-04-17 2017-07-29 2017-11-09 2018-03-28 2018-11-09 2019-02-02
2019-07-07 2019-10-10 2019-12-12 2020-02-10 2020-04-08 2020-06-12 2020-08-04 2020-10-02 2020-12-06 2021-02-12 2021-04-10
2021-06-08 2021-08-06 2021-10-04 2021-12-02 2022-11-02 2023-01-03 2023-08-03 2023-11-03 2024-02-04 2024-05-04 2024-08-04
2024-11-04 2025-01-05 2025-05-05 2025-07-05 2025-11-05 2026-02-06 2026-04-06 2026-06-06 2026-10-06'''.split()
LISTS, PREFIX = ('Committed', 'Uncommitted', 'Latest'), object()
OPERATIONS = {  # by method, level and `comp`: what does it, and by which letters of a signature
    ('GET', 'account', 'properties'): ('account', 'r'), ('HEAD', 'account', 'properties'): ('account', 'r'),
    ('PUT', 'container', ''): ('make_container', 'cw'), ('DELETE', 'container', ''): ('remove_container', 'd'),
    ('GET', 'container', ''): ('get_container', 'r'), ('HEAD', 'container', ''): ('get_container', 'r'),
    ('GET', 'container', 'list'): ('list', 'l'),
    ('GET', 'blob', ''): ('get', 'r'), ('HEAD', 'blob', ''): ('get', 'r'), ('DELETE', 'blob', ''): ('delete', 'd'),
    ('PUT', 'blob', ''): ('put', 'wc'), ('PUT', 'blob', 'metadata'): ('set_metadata', 'w'),
    ('PUT', 'blob', 'block'): ('put_block', 'w'), ('PUT', 'blob', 'blocklist'): ('put_blocks', 'w'),
    ('GET', 'blob', 'blocklist'): ('get_blocks', 'r')}


class Service(service.Service):
    name, request, tokens = 'Windows-Azure-Blob/1.0 ckpt-test', Request, Tokens

    def __init__(self, options):
        super().__init__(options)
        self.containers = {options.container: Container()}

    def answer(self, request):
        status, headers, body = super().answer(request)
        own = {'x-ms-request-id': str(uuid.uuid4()), 'x-ms-version': request.version or '2009-09-19'}
        if 'x-ms-client-request-id' in request.headers:
            own['x-ms-client-request-id'] = request.headers['x-ms-client-request-id']
        return status, {**own, **headers}, body

    def error_answer(self, refused, _):
        if self.options.rarer_answers and refused.reason == 'BlobAlreadyExists':
            refused = Refused(412, 'ConditionNotMet', 'The condition specified using HTTP conditional header(s) is not '
                              'met.')
        return error_answer(refused, access.CHALLENGE if refused.status == 401 else {})

    def unknown_path(self, request):
        return self.error_answer(Refused(400, 'InvalidUri', f'The requested URI {request.path} does not represent any '
                                         'resource on the server.'), request)

    def no_length(self):
        return error_answer(Refused(411, 'MissingContentLengthHeader', 'The Content-Length header was not specified.'))

    def failure_reason(self, status):
        return {500: 'InternalError', 503: 'ServerBusy'}.get(status, 'OperationTimedOut')

    def route(self, request):
        where = request.method, request.path
        if where[0] == 'POST' and (tenant := re.fullmatch('/([^/]+)/oauth2/v2.0/token', where[1])):
            return self.tokens.token(request, tenant[1])
        if where == ('GET', '/metadata/identity/oauth2/token'):
            return self.tokens.instance(request)
        if where == ('GET', '/msi/token'):
            return self.tokens.app_service(request)
        if where[0] == 'POST' and where[1].startswith('/test/'):
            return self.test(request)
        kind, query = request.query.get('restype', ''), request.query
        if request.account != access.ACCOUNT:
            return self.unknown_path(request)
        if kind != ('' if request.level == 'blob' else request.level):
            raise invalid_query('restype', kind)
        operation = OPERATIONS.get((request.method, request.level, query.get('comp', '')))
        if not operation:
            raise invalid_query('comp', query.get('comp', ''))
        if request.version and request.version not in VERSIONS:
            raise invalid_header('x-ms-version', request.version)
        if 'x-ms-structured-body' in request.headers:
            raise Refused(400, 'UnsupportedHeader', 'One of the HTTP headers specified in the request is not '
                          'supported.')
        return self.storage_answer(request, lambda: self.authorize(request, operation[1]),
                                   lambda: getattr(self, operation[0])(request))

    def authorize(self, request, permissions):
        container = self.containers.get(request.container)
        public = container and (container.public == 'container' and permissions in 'rl' or
                                container.public == 'blob' and permissions == 'r' and request.level == 'blob')
        access.check(request, self.tokens, permissions, public, container and request.name in container.blobs)

    def find(self, request):
        """The container, and the blob that is there now or None."""
        if request.container not in self.containers:
            raise Refused(404, 'ContainerNotFound', 'The specified container does not exist.')
        container = self.containers[request.container]
        return container, container.blobs.get(request.name)

    def find_blob(self, request):
        container, live = self.find(request)
        if not live:
            raise Refused(404, 'BlobNotFound', 'The specified blob does not exist.')
        return container, live

    # Accounts and containers

    def account(self, _):
        hierarchical = 'true' if self.options.hierarchical else 'false'
        return 200, {'x-ms-sku-name': 'Standard_LRS', 'x-ms-account-kind': 'StorageV2',
                     'x-ms-is-hns-enabled': hierarchical}, b''

    def make_container(self, request):
        name, public = request.container, request.headers.get('x-ms-blob-public-access')
        if not re.fullmatch(r'(?!.*--)[a-z0-9][a-z0-9-]{1,61}[a-z0-9]', name):
            raise Refused(400, 'InvalidResourceName', 'The specified resource name contains invalid characters.')
        if public not in (None, 'blob', 'container'):
            raise invalid_header('x-ms-blob-public-access', public)
        if name in self.containers:
            raise Refused(409, 'ContainerAlreadyExists', 'The specified container already exists.')
        self.containers[name] = Container(public)
        return 201, self.containers[name].changed, b''

    def get_container(self, request):
        container, _ = self.find(request)
        return 200, {**container.changed, 'x-ms-lease-status': 'unlocked', 'x-ms-lease-state': 'available'}, b''

    def remove_container(self, request):
        self.find(request)
        del self.containers[request.container]
        return 202, {}, b''

    def list(self, request):
        container, _ = self.find(request)
        query = request.query
        prefix, delimiter, marker = (query.get(name, '') for name in ('prefix', 'delimiter', 'marker'))
        include, limit = query.get('include', '').split(','), query.get('maxresults', str(MAX_PAGE))
        if not re.fullmatch(r'[1-9]\d*', limit):
            raise Refused(400, 'OutOfRangeQueryParameterValue', 'One of the query parameters specified in the request '
                          f'URI is outside the permissible range. QueryParameterName: maxresults {limit}')
        shown, _, after = (decoded(marker) or b'').decode().partition('!')
        entries = self.entries(container, prefix, delimiter, 'uncommittedblobs' in include)
        entries = [entry for entry in sorted(entries.items()) if entry[0] > after]
        if self.options.empty_pages and entries and not shown:  # as there now and then: a page with a marker only
            page, following = [], f'shown!{after}'
        else:
            page = entries[:min(int(limit), self.options.page)]
            following = f'!{page[-1][0]}' if len(entries) > len(page) else ''
        fields = ''.join(f'<{name}>{escape(value)}</{name}>' for name, value in
                         (('Prefix', prefix), ('Marker', marker), ('MaxResults', query.get('maxresults', '')),
                          ('Delimiter', delimiter)) if value)
        blobs = ''.join(self.entry(name, live, include) for name, live in page)
        return xml_answer(f'<EnumerationResults ServiceEndpoint="http://{request.headers["Host"]}/{access.ACCOUNT}" '
                          f'ContainerName="{request.container}">{fields}<Blobs>{blobs}</Blobs>'
                          f'<NextMarker>{base64_text(following.encode())}</NextMarker></EnumerationResults>')

    def entries(self, container, prefix, delimiter, staged):
        """What a list shows: blobs, PREFIX for the prefixes, and None for what has staged blocks only."""
        found = {name: None for name in container.staged if name.startswith(prefix)} if staged else {}
        found, entries = {**found, **dict(container.blobs.under(prefix))}, {}
        for name, live in found.items():
            cut = name.find(delimiter, len(prefix)) if delimiter else -1
            folder = live and self.options.hierarchical and delimiter == '/' and live.is_folder()
            if cut >= 0 or folder:
                entries[name[:cut + len(delimiter)] if cut >= 0 else f'{name}/'] = PREFIX
            else:
                entries[name] = live
        return entries

    def entry(self, name, live, include):
        if live is PREFIX:
            return f'<BlobPrefix>{name_tag(name)}</BlobPrefix>'
        fields = {'Content-Length': len(live.data) if live else 0, 'BlobType': 'BlockBlob'}
        if live:
            fields = {'Creation-Time': http_date(live.created), 'Last-Modified': http_date(live.time),
                      'Etag': live.etag.strip('"'), **fields, **live.properties, 'Content-MD5': live.md5 or '',
                      'LeaseStatus': 'unlocked', 'LeaseState': 'available', 'ServerEncrypted': 'true'}
            if self.options.hierarchical:
                fields['ResourceType'] = 'directory' if live.is_folder() else 'file'
        tags = ''.join(f'<{field}>{escape(str(value))}</{field}>' for field, value in fields.items())
        metadata = ''
        if live and 'metadata' in include:
            metadata = ''.join(f'<{key}>{escape(value)}</{key}>' for key, value in live.metadata.items())
            metadata = f'<Metadata>{metadata}</Metadata>'
        return f'<Blob>{name_tag(name)}<Properties>{tags}</Properties>{metadata}</Blob>'

    # Blobs

    def get(self, request):
        _, live = self.find_blob(request)
        check_conditions(request.headers, live, read=True)
        headers, body, size = self.described(live), Joined([live.data]), len(live.data)
        if request.method == 'HEAD':
            return 200, {**headers, **({'Content-MD5': live.md5} if live.md5 else {})}, body
        wanted = parse_range(request.headers.get('x-ms-range') or request.headers.get('Range'), size)
        sums = [name for name in ('md5', 'crc64') if request.flag(f'x-ms-range-get-content-{name}')]
        if sums and (len(sums) > 1 or not wanted):
            raise invalid_header(f'x-ms-range-get-content-{sums[0]}', 'true')
        if not wanted:
            return 200, {**headers, **({'Content-MD5': live.md5} if live.md5 else {})}, body
        body = body[wanted[0]:wanted[1]]
        if sums and len(body) > MAX_SUMMED:
            raise Refused(400, 'OutOfRangeInput', 'One of the request inputs is out of range.')
        headers['Content-Range'] = f'bytes {wanted[0]}-{wanted[1] - 1}/{size}'
        if live.md5:
            headers['x-ms-blob-content-md5'] = live.md5
        if sums:
            sums = {'md5': ('Content-MD5', md5_of), 'crc64': ('x-ms-content-crc64', crc64_of)}[sums[0]]
            headers[sums[0]] = sums[1](bytes(body))
        return 206, headers, body

    def described(self, live):
        headers = live.headers()
        if self.options.hierarchical:
            headers['x-ms-resource-type'] = 'directory' if live.is_folder() else 'file'
        return headers

    def delete(self, request):
        container, live = self.find_blob(request)
        check_conditions(request.headers, live)
        check_held(request.name)
        if self.options.hierarchical and container.blobs.under(f'{request.name}/'):
            raise Refused(409, 'DirectoryIsNotEmpty', 'This operation is not permitted on a non-empty directory.')
        del container.blobs[request.name]
        container.staged.pop(request.name, None)
        return 202, {'x-ms-delete-type-permanent': 'true'}, b''

    def set_metadata(self, request):
        _, live = self.find_blob(request)
        check_conditions(request.headers, live)
        live.metadata = metadata_of(request.headers)
        live.stamp()
        return 200, live.changed(), b''

    def put(self, request):
        if 'x-ms-copy-source' in request.headers:
            return self.copy(request)
        if request.headers.get('x-ms-blob-type') != 'BlockBlob':
            raise missing('x-ms-blob-type')
        container, live = self.find(request)
        if not live and request.name in container.staged and request.headers.get('If-None-Match') == '*':
            # So does Azurite. The service's documents do not say, so nobody may lean on either.
            raise Refused(409, 'BlobAlreadyExists', 'The specified blob already exists.')
        check_conditions(request.headers, live)
        sums = check_sums(request.body, request.headers.get('x-ms-blob-content-md5')
                          or request.headers.get('Content-MD5'), request.headers.get('x-ms-content-crc64'))
        md5 = None if self.options.no_md5 else md5_of(request.body)
        new = Blob(request.body, metadata_of(request.headers), properties_of(request.headers), md5)
        self.place(container, request.name, new)
        sums = {**sums, **({'Content-MD5': md5} if md5 else {})}
        return 201, {**new.changed(), **sums, 'x-ms-request-server-encrypted': 'true'}, b''

    def place(self, container, name, new):
        """The one place where a blob comes to be. What was staged for it goes."""
        if name in container.blobs:
            check_held(name)
        if len(name) > 1024:
            raise Refused(400, 'OutOfRangeInput', 'The specified resource name length is not within the permissible '
                          'limits.')
        if self.options.hierarchical:
            parts = name.split('/')
            folders = ['/'.join(parts[:count]) for count in range(1, len(parts))]
            live = container.blobs.get(name)
            if any(not container.blobs[folder].is_folder() for folder in folders if folder in container.blobs) or (
                    live and live.is_folder() and not new.is_folder()):
                raise Refused(409, 'ResourceTypeMismatch', 'The specified resource type does not match the type of the '
                              'existing resource.')
            for folder in folders:
                if folder not in container.blobs:
                    container.blobs[folder] = Blob(b'', {'hdi_isfolder': 'true'}, {})
        container.blobs[name] = new
        container.staged.pop(name, None)

    # Blocks

    def stage(self, request, container, data, sums):
        """Blocks belong to the name: the last one of an id is the one that a list takes, whoever brought it."""
        block = request.query.get('blockid', '')
        if not decoded(block):
            raise invalid_query('blockid', block)
        if len(decoded(block)) > 64:
            raise Refused(400, 'OutOfRangeInput', 'One of the request inputs is out of range.')
        if not data:
            raise invalid_header('Content-Length', '0')
        blocks = container.staged.setdefault(request.name, {})
        if any(len(other) != len(block) for other in blocks):
            raise Refused(400, 'InvalidBlobOrBlock', 'The specified blob or block content is invalid.')
        blocks[block] = data
        return 201, {**sums, 'x-ms-request-server-encrypted': 'true'}, b''

    def put_block(self, request):
        container, _ = self.find(request)
        headers = request.headers
        if 'x-ms-copy-source' in headers:
            source = self.source(request)
            wanted = parse_range(headers.get('x-ms-source-range'), len(source.data)) or (0, len(source.data))
            data, prefix = Joined([source.data])[wanted[0]:wanted[1]], 'x-ms-source-content-'
            sums = check_sums(bytes(data), headers.get(prefix + 'md5'), headers.get(prefix + 'crc64'))
            return self.stage(request, container, data, sums)
        sums = check_sums(request.body, headers.get('Content-MD5'), headers.get('x-ms-content-crc64'))
        return self.stage(request, container, request.body, sums)

    def put_blocks(self, request):
        container, live = self.find(request)
        headers = request.headers
        sums = check_sums(request.body, headers.get('Content-MD5'), headers.get('x-ms-content-crc64'))
        if not self.options.rarer_answers:
            check_conditions(headers, live)
        found, blocks, end = self.chosen(request, container, live), {}, 0
        check_conditions(headers, live)
        for block, part in found:
            blocks[block], end = (end, end + len(part)), end + len(part)
        properties = {name: value for name, value in properties_of(headers).items() if name != 'Content-Type'}
        if 'x-ms-blob-content-type' in headers:
            properties['Content-Type'] = headers['x-ms-blob-content-type']
        data = Joined([part for _, part in found])
        new = Blob(data, metadata_of(headers), properties, headers.get('x-ms-blob-content-md5'), blocks)
        self.place(container, request.name, new)
        return 201, {**new.changed(), **sums, 'x-ms-request-server-encrypted': 'true'}, b''

    def chosen(self, request, container, live):
        """The blocks that a block list names, each with its bytes."""
        try:
            root = xml.etree.ElementTree.fromstring(request.body)
        except xml.etree.ElementTree.ParseError:
            root = None
        if root is None or root.tag != 'BlockList' or any(item.tag not in LISTS for item in root):
            raise Refused(400, 'InvalidXmlDocument', 'XML specified is not syntactically valid.')
        if len(root) > MAX_BLOCKS:
            raise Refused(400, 'BlockListTooLong', f'The block list may not contain more than {MAX_BLOCKS} blocks.')
        staged = container.staged.get(request.name, {})
        committed = {block: live.data[begin:end] for block, (begin, end) in live.blocks.items()} if live else {}
        found = []
        for item in root:
            known = {'Uncommitted': staged, 'Committed': committed, 'Latest': {**committed, **staged}}[item.tag]
            if item.text not in known:
                raise Refused(400, 'InvalidBlockList', 'The specified block list is invalid.')
            found.append((item.text, known[item.text]))
        return found

    def get_blocks(self, request):
        container, live = self.find(request)
        staged = container.staged.get(request.name, {})
        if not live and not staged:
            self.find_blob(request)
        kind = request.query.get('blocklisttype', 'committed')
        sizes = {'Committed': {block: end - begin for block, (begin, end) in (live.blocks if live else {}).items()},
                 'Uncommitted': {block: len(data) for block, data in staged.items()}}
        lists = ''.join(f'<{name}Blocks>' + ''.join(f'<Block><Name>{block}</Name><Size>{size}</Size></Block>'
                                                    for block, size in blocks.items()) + f'</{name}Blocks>'
                        for name, blocks in sizes.items() if kind in ('all', name.lower()))
        size = {'x-ms-blob-content-length': str(len(live.data)), **live.changed()} if live else {}
        return xml_answer(f'<BlockList>{lists}</BlockList>', 200, size)

    # Copies

    def source(self, request, known=False):
        """The blob that x-ms-copy-source names, if whoever asks may read it and its conditions hold. `known`: whoever
        asks may read all of the account."""
        url, headers = urlsplit(request.headers['x-ms-copy-source']), {'x-ms-version': request.version}
        if 'x-ms-copy-source-authorization' in request.headers:
            headers['Authorization'] = request.headers['x-ms-copy-source-authorization']
        asked = Request('GET', f'{url.path}?{url.query}', headers, b'')
        try:
            if url.netloc != request.headers['Host'] or asked.account != access.ACCOUNT:
                raise Refused(404, '', 'The specified resource does not exist.')
            if not known:
                self.authorize(asked, 'r')
            _, live = self.find_blob(asked)
        except Refused as refused:
            raise Refused(refused.status, 'CannotVerifyCopySource', refused.message) from None
        check_conditions(request.headers, live, 'x-ms-source-')
        return live

    def copy(self, request):
        container, live = self.find(request)
        check_conditions(request.headers, live)
        # Copy Blob takes any size, and its own key or token for a source in the account; Copy Blob From URL neither.
        sync = request.flag('x-ms-requires-sync')
        source = self.source(request, not sync and 'Authorization' in request.headers)
        if sync and len(source.data) > self.options.copy_bytes:  # the documents name no code
            raise Refused(409, 'CannotVerifyCopySource', 'The source request body for synchronous copy is too large '
                          f'and exceeds the maximum permissible limit ({self.options.copy_bytes} bytes).')
        sums = check_sums(bytes(source.data), request.headers.get('x-ms-source-content-md5'), None)
        metadata = metadata_of(request.headers) or source.metadata
        new = Blob(source.data, metadata, source.properties, source.md5, source.blocks)
        self.place(container, request.name, new)
        return 202, {**new.changed(), **sums, 'x-ms-copy-id': str(uuid.uuid4()), 'x-ms-copy-status': 'success'}, b''


def check_held(name):
    if 'held-by-policy' in name:
        raise Refused(409, 'BlobImmutableDueToPolicy', 'This operation is not permitted as the blob is immutable due '
                      'to a policy.')


class Handler(service.Handler):
    do_HEAD = service.Handler.handle_any


def main():
    parser = service.parser(__doc__)
    parser.add_argument('--container', default='ckpt-test')
    parser.add_argument('--page', type=int, default=MAX_PAGE, help='blobs and prefixes of a page of a list, at most')
    parser.add_argument('--empty-pages', action='store_true', help='before each page comes one with a marker only')
    parser.add_argument('--copy-bytes', type=int, default=256 << 20, help='what Copy Blob From URL copies, at most')
    parser.add_argument('--rarer-answers', action='store_true', help='412 where a blob is there already, and a block '
                        'list is judged before its conditions')
    parser.add_argument('--hierarchical', action='store_true', help='the account has directories')
    service.serve(Service(parser.parse_args()), Handler)


if __name__ == '__main__':
    main()
