#!/usr/bin/env python3
"""The same calls to the test server and to Azurite, and where their answers differ. Under tests/azure/run.sh:

  differential.py AZURITE    the program azurite-blob, of npm's package azurite; needs azure-storage-blob

It fails on a difference that KNOWN does not list, and on one of KNOWN that is gone.
"""
import os, re, socket, subprocess, sys, time, xml.etree.ElementTree

from server_test import Client, xml_of

# Azurite 3.37.0 on 2026-11-30: what it does, and where. The test server does what the service's documents say.
KNOWN = {
    'It does what the service refuses.': (
        'metadata of 9 KiB', 'a range past the end', 'all with MD5', 'an empty block', 'a long name',
        'a block list with a sum of its own', 'its lost blocks', 'a copy by nobody'),
    'Nothing says that the service does it.': ('a range of the last', 'removing what is staged', 'what is staged'),
    'It cannot do it.': ('a range with CRC64', 'a block from a URL', 'a block from another', 'what came from a URL'),
    'It refuses without a code.': ('a blob without its type', 'a block list that is no XML', 'a page of none'),
    'It refuses by another code.': ('a block list of another kind', 'a copy of another', 'a copy of none',
                                    'no signature', 'a token that is none'),
    'It answers another MD5, or none.': ('a block with MD5', 'a block list', 'reading it',
                                         'a block list of what is there'),
}

PUT, MD5, CRC = {'x-ms-blob-type': 'BlockBlob'}, 'JfnnlDI7RTiF9RgfG2JNCw==', 'iJh5CoYUi64='
NINE, LIST, BOX = b'123456789', 'restype=container&comp=list', 'restype=container'
COMPARED = 'Content-MD5', 'Content-Range', 'x-ms-meta-k', 'Content-Type', 'x-ms-copy-status'


def block(name):
    return f'comp=block&blockid={xml_of(name).split(b"Latest>")[1][:-2].decode()}'


CALLS = [  # title, method, path, query, headers, body. {etag}: of the last answer about that path
    ('a container', 'PUT', '', BOX, {}, b''),
    ('a container again', 'PUT', '', BOX, {}, b''),
    ('its properties', 'GET', '', BOX, {}, b''),
    ('a blob', 'PUT', '/a', '', {**PUT, 'x-ms-meta-k': 'v', 'Content-MD5': MD5}, NINE),
    ('a blob where none may be', 'PUT', '/a', '', {**PUT, 'If-None-Match': '*'}, NINE),
    ('a blob without its type', 'PUT', '/t', '', {}, NINE),
    ('a blob in the place of another', 'PUT', '/a', '', {**PUT, 'If-Match': '"0x1"'}, NINE),
    ('a blob in the place of none', 'PUT', '/none', '', {**PUT, 'If-Match': '*'}, NINE),
    ('a blob with CRC64', 'PUT', '/c', '', {**PUT, 'x-ms-content-crc64': CRC}, NINE),
    ('a wrong CRC64', 'PUT', '/w', '', {**PUT, 'x-ms-content-crc64': CRC}, b'x'),
    ('a short CRC64', 'PUT', '/w', '', {**PUT, 'x-ms-content-crc64': 'AAAA'}, b'x'),
    ('a wrong MD5', 'PUT', '/w', '', {**PUT, 'Content-MD5': MD5}, b'x'),
    ('a short MD5', 'PUT', '/w', '', {**PUT, 'Content-MD5': 'AAAA'}, b'x'),
    ('both sums', 'PUT', '/w', '', {**PUT, 'Content-MD5': MD5, 'x-ms-content-crc64': CRC}, NINE),
    ('metadata with a hyphen', 'PUT', '/w', '', {**PUT, 'x-ms-meta-a-b': 'v'}, NINE),
    ('metadata of 9 KiB', 'PUT', '/w', '', {**PUT, 'x-ms-meta-k': 'v' * 9216}, NINE),
    ('no version', 'GET', '/a', '', {'x-ms-version': ''}, b''),
    ('reading', 'GET', '/a', '', {}, b''),
    ('reading what is the same', 'GET', '/a', '', {'If-Match': '{etag}'}, b''),
    ('reading what is another', 'GET', '/a', '', {'If-Match': '"0x1"'}, b''),
    ('reading what is not new', 'GET', '/a', '', {'If-None-Match': '{etag}'}, b''),
    ('describing', 'HEAD', '/a', '', {}, b''),
    ('describing none', 'HEAD', '/none', '', {}, b''),
    ('reading none', 'GET', '/none', '', {}, b''),
    ('a range', 'GET', '/a', '', {'Range': 'bytes=2-4'}, b''),
    ('two ranges', 'GET', '/a', '', {'Range': 'bytes=2-4', 'x-ms-range': 'bytes=1-1'}, b''),
    ('a range to the end', 'GET', '/a', '', {'Range': 'bytes=2-'}, b''),
    ('a range past the end', 'GET', '/a', '', {'Range': 'bytes=9-'}, b''),
    ('a range backwards', 'GET', '/a', '', {'Range': 'bytes=4-2'}, b''),
    ('a range of the last', 'GET', '/a', '', {'Range': 'bytes=-2'}, b''),
    ('a range with MD5', 'GET', '/a', '', {'Range': 'bytes=2-4', 'x-ms-range-get-content-md5': 'true'}, b''),
    ('a range with CRC64', 'GET', '/a', '', {'Range': 'bytes=2-4', 'x-ms-range-get-content-crc64': 'true'}, b''),
    ('all with MD5', 'GET', '/a', '', {'x-ms-range-get-content-md5': 'true'}, b''),
    ('setting metadata', 'PUT', '/a', 'comp=metadata', {'x-ms-meta-k': 'w'}, b''),
    ('setting metadata of another', 'PUT', '/a', 'comp=metadata', {'If-Match': '"0x1"'}, b''),
    ('a block', 'PUT', '/b', block('01'), {}, b'one'),
    ('a block with MD5', 'PUT', '/b', block('02'), {'Content-MD5': MD5}, NINE),
    ('a block with a wrong MD5', 'PUT', '/b', block('02'), {'Content-MD5': MD5}, b'x'),
    ('a block with a wrong CRC64', 'PUT', '/b', block('02'), {'x-ms-content-crc64': CRC}, b'x'),
    ('the same block', 'PUT', '/b', block('01'), {}, b'two'),
    ('a longer id', 'PUT', '/b', block('0001'), {}, b'x'),
    ('an id that is none', 'PUT', '/b', 'comp=block&blockid=A', {}, b'x'),
    ('an id of 66 bytes', 'PUT', '/i', f'comp=block&blockid={"A" * 88}', {}, b'x'),
    ('an empty block', 'PUT', '/b', block('03'), {}, b''),
    ('reading what is staged', 'GET', '/b', '', {}, b''),
    ('a block of another name', 'PUT', '/g', block('01'), {}, b'one'),
    ('removing what is staged', 'DELETE', '/g', '', {}, b''),
    ('what is staged', 'GET', '/b', 'comp=blocklist&blocklisttype=all', {}, b''),
    ('a blob where blocks are staged', 'PUT', '/b', '', {**PUT, 'If-None-Match': '*'}, b'x'),
    ('a list with staged blocks', 'GET', '', f'{LIST}&include=uncommittedblobs&prefix=b', {}, b''),
    ('a list without', 'GET', '', f'{LIST}&prefix=b', {}, b''),
    ('a block list of none', 'PUT', '/b', 'comp=blocklist', {}, xml_of('01', '09')),
    ('a block list', 'PUT', '/b', 'comp=blocklist', {'If-None-Match': '*', 'x-ms-meta-k': 'v'}, xml_of('01', '02')),
    ('reading it', 'GET', '/b', '', {}, b''),
    ('a block list where one is', 'PUT', '/b', 'comp=blocklist', {'If-None-Match': '*'}, xml_of('01')),
    ('a block list in the place of another', 'PUT', '/b', 'comp=blocklist', {'If-Match': '"0x1"'}, xml_of('01')),
    ('a block list of gone blocks', 'PUT', '/b', 'comp=blocklist', {'If-None-Match': '*'}, xml_of('07')),
    ('a block list of what is there', 'PUT', '/b', 'comp=blocklist', {'If-Match': '{etag}'}, xml_of('02', '01')),
    ('its blocks', 'GET', '/b', 'comp=blocklist&blocklisttype=all', {}, b''),
    ('a block list with a sum of its own', 'PUT', '/b', 'comp=blocklist', {'Content-MD5': MD5}, xml_of('01')),
    ('a block list that is no XML', 'PUT', '/b', 'comp=blocklist', {}, b'<BlockList>'),
    ('a block list of another kind', 'PUT', '/b', 'comp=blocklist', {}, b'<BlockList><New>AAAA</New></BlockList>'),
    ('a blob over a staged block', 'PUT', '/s', block('01'), {}, b'x'),
    ('that blob', 'PUT', '/s', '', PUT, b'whole'),
    ('its lost blocks', 'PUT', '/s', 'comp=blocklist', {}, xml_of('01')),
    *((f'the name {name}', 'PUT', f'/l/{name}', '', PUT, b'x') for name in ('a/1', 'a/2', 'b', 'c%26%C3%A9', 'd')),
    ('a list', 'GET', '', f'{LIST}&prefix=l/', {}, b''),
    ('a list with a delimiter', 'GET', '', f'{LIST}&prefix=l/&delimiter=/', {}, b''),
    ('a page', 'GET', '', f'{LIST}&prefix=l/&delimiter=/&maxresults=2', {}, b''),
    ('a page of none', 'GET', '', f'{LIST}&maxresults=0', {}, b''),
    ('a list of what is not', 'GET', '', f'{LIST}&prefix=nothing', {}, b''),
    ('a long name', 'PUT', '/' + 'n' * 1025, '', PUT, b'x'),
    ('a copy', 'PUT', '/d', '', {'x-ms-copy-source': '{url}/a?{sas}', 'x-ms-requires-sync': 'true'}, b''),
    ('a copy where one is', 'PUT', '/d', '', {'x-ms-copy-source': '{url}/a?{sas}', 'x-ms-requires-sync': 'true',
                                              'If-None-Match': '*'}, b''),
    ('a copy of another', 'PUT', '/d', '', {'x-ms-copy-source': '{url}/a?{sas}', 'x-ms-requires-sync': 'true',
                                            'x-ms-source-if-match': '"0x1"'}, b''),
    ('a copy of none', 'PUT', '/d', '', {'x-ms-copy-source': '{url}/none?{sas}', 'x-ms-requires-sync': 'true'}, b''),
    ('a copy by nobody', 'PUT', '/d', '', {'x-ms-copy-source': '{url}/a', 'x-ms-requires-sync': 'true'}, b''),
    ('a block from a URL', 'PUT', '/u', block('01'), {'x-ms-copy-source': '{url}/a?{sas}',
                                                      'x-ms-source-range': 'bytes=2-4'}, b''),
    ('a block from another', 'PUT', '/u', block('01'), {'x-ms-copy-source': '{url}/a?{sas}',
                                                        'x-ms-source-if-match': '"0x1"'}, b''),
    ('what came from a URL', 'PUT', '/u', 'comp=blocklist', {}, xml_of('01')),
    ('removing another', 'DELETE', '/a', '', {'If-Match': '"0x1"'}, b''),
    ('removing', 'DELETE', '/a', '', {'If-Match': '{etag}'}, b''),
    ('removing none', 'DELETE', '/a', '', {}, b''),
    ('no signature', 'GET', '/b', 'sas=', {}, b''),
    ('a token that is none', 'GET', '/b', 'sas=', {'Authorization': 'Bearer x'}, b''),
    ('removing the container', 'DELETE', '', BOX, {}, b''),
    ('reading where no container is', 'GET', '/a', '', {}, b''),
]


def answers(connection):
    """What a server answers to each call, as far as it is compared."""
    client, etags, found = Client(), {}, {}
    client.open(connection, f'differential-{os.getpid()}')
    url = f'{client.service.url.rstrip("/")}/{client.container.container_name}'
    for title, method, path, query, headers, body in CALLS:
        headers = {name: value.replace('{etag}', etags.get(path, '')).replace('{url}', url).replace('{sas}', client.sas)
                   for name, value in headers.items()}
        anonymous = query == 'sas='
        status, code = client.ask(method, path, '' if anonymous else query, headers, body, '' if anonymous else None)
        etags[path] = client.headers.get('ETag') or etags.get(path, '')
        more = {name: client.headers[name] for name in COMPARED if name in client.headers} if status < 300 else {}
        if b'<?xml' in client.body[:9] and status == 200:
            root = xml.etree.ElementTree.fromstring(client.body.decode('utf-8-sig'))
            names = [item.text for item in root.iter('Name')]
            more = {'names': names, 'more': bool(root.findtext('NextMarker'))}
        elif method == 'GET' and status < 300:
            more['body'] = client.body
        found[title] = (status, code, more)
    return found


def with_azurite(program):
    """What Azurite answers to each call."""
    with socket.create_server(('127.0.0.1', 0)) as free:
        port = free.getsockname()[1]
    command = [program, '--inMemoryPersistence', '--skipApiVersionCheck', '--silent', '--blobPort', str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        for _ in range(300):  # half a minute
            try:
                socket.create_connection(('127.0.0.1', port)).close()
                break
            except OSError:
                time.sleep(0.1)
        return answers(re.sub(r'127\.0\.0\.1:\d+', f'127.0.0.1:{port}', os.environ['AZURE_STORAGE_CONNECTION_STRING']))
    finally:
        server.terminate()
        server.wait()


def main():
    ours, theirs = answers(os.environ['AZURE_STORAGE_CONNECTION_STRING']), with_azurite(sys.argv[1])
    differ = [title for title in ours if ours[title] != theirs[title]]
    known = {title: why for why, titles in KNOWN.items() for title in titles}
    for title in differ:
        print(f'{title}: {known.get(title, "NEW")}\n  test server {ours[title]}\n  Azurite     {theirs[title]}')
    for title in sorted(known.keys() - set(differ)):
        print(f'{title}: no longer differs')
    print(f'{len(ours)} calls, {len(differ)} differences')
    sys.exit(set(differ) != known.keys())


if __name__ == '__main__':
    main()
