#!/usr/bin/env python3
"""The rules that the test server keeps, each by requests that a careless client would get wrong.

server_test.py [-v]: starts the server by run.sh, and runs these tests and tokens_test.py.
"""
import http.client, json, os, sys, unittest, urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
HOST = os.environ.get('CKPT_TEST_GCS', '').strip('htp:/')
O, UPLOAD, PIECE = '/storage/v1/b/ckpt-test/o', '/upload/storage/v1/b/ckpt-test/o', 256 << 10
METADATA_SERVER = '/computeMetadata/v1/instance/service-accounts/default/token'


class Client:
    """One who asks the server of run.sh, with a good token."""
    def setUp(self):
        self.token = None
        self.ask('GET', METADATA_SERVER, headers={'Metadata-Flavor': 'Google'})
        self.token = self.json['access_token']

    def ask(self, method, path, body=b'', headers=()):
        connection = http.client.HTTPConnection(HOST)
        kind = 'application/json' if isinstance(body, dict) else 'application/octet-stream'
        body = json.dumps(body).encode() if isinstance(body, dict) else body
        headers = {'Content-Type': kind, 'Authorization': f'Bearer {self.token}', **dict(headers)}
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        self.headers, self.body = answer.headers, answer.read()
        connection.close()
        self.json = json.loads(self.body) if 'json' in (answer.getheader('Content-Type') or '') else {}
        error = self.json.get('error')
        self.reason = error['errors'][0]['reason'] if isinstance(error, dict) else error
        return answer.status


class Rules(Client, unittest.TestCase):
    def write(self, name, data=b'x', more='', headers=()):
        return self.ask('POST', f'{UPLOAD}?uploadType=media&name={urllib.parse.quote(name, "")}{more}', data, headers)

    def begin(self, name, more='', body=()):
        self.assertEqual(self.ask('POST', f'{UPLOAD}?uploadType=resumable&name={name}{more}', dict(body)), 200)
        return self.headers['Location'].split(HOST)[1]

    def piece(self, session, given, data=b''):
        return self.ask('PUT', session, data, {'Content-Range': f'bytes {given}'})

    def test_a_generation_that_does_not_hold_is_412_and_changes_nothing(self):
        self.assertEqual(self.write('a', b'one', '&ifGenerationMatch=0'), 200)
        first = int(self.json['generation'])
        self.assertEqual((self.write('a', b'two', '&ifGenerationMatch=0'), self.reason), (412, 'conditionNotMet'))
        self.assertEqual((self.ask('GET', f'{O}/a?alt=media&ifGenerationMatch={first}'), self.body), (200, b'one'))
        self.assertEqual(self.ask('GET', f'{O}/a?ifGenerationNotMatch={first}'), 304)
        self.assertEqual(self.write('a', b'two', f'&ifGenerationMatch={first}'), 200)
        self.assertGreater(int(self.json['generation']), first)
        self.assertEqual(self.ask('GET', f'{O}/a?generation={first}'), 404)
        self.assertEqual(self.ask('DELETE', f'{O}/a?ifGenerationMatch={first}'), 412)
        self.assertEqual([self.ask('DELETE', f'{O}/a') for _ in range(2)], [204, 404])

    def test_a_wrong_checksum_is_400_and_leaves_no_object(self):
        self.assertEqual((self.write('sum', headers={'x-goog-hash': 'crc32c=AAAAAA=='}), self.reason), (400, 'invalid'))
        body = (b'--B\r\nContent-Type: application/json\r\n\r\n{"name":"sum","crc32c":"%s","metadata":{"k":"v"}}\r\n'
                b'--B\r\nContent-Type: text/plain\r\n\r\n123456789\r\n--B--')
        related = {'Content-Type': 'multipart/related; boundary=B'}
        for crc, status in (b'AAAAAA==', 400), (b'4waSgw==', 200):
            self.assertEqual(self.ask('POST', f'{UPLOAD}?uploadType=multipart', body % crc, related), status)
            self.assertEqual(self.ask('GET', f'{O}/sum'), 404 if status == 400 else 200)
        self.assertEqual((self.json['metadata'], self.json['size']), ({'k': 'v'}, '9'))

    def test_a_resumable_upload_keeps_what_it_says_and_is_judged_at_its_end(self):
        session, other = self.begin('r', '&ifGenerationMatch=0'), self.begin('r', '&ifGenerationMatch=0')
        self.assertEqual((self.piece(session, '*/*'), self.headers['Range']), (308, None))
        self.assertEqual(self.piece(session, '0-99/*', b'x' * 100), 400)
        self.ask('POST', f'/test/keep?bytes={PIECE}')
        self.assertEqual(self.piece(session, f'0-{2 * PIECE - 1}/*', b'x' * 2 * PIECE), 308)
        self.assertEqual(self.headers['Range'], f'bytes=0-{PIECE - 1}')
        self.assertEqual(self.piece(session, f'{2 * PIECE}-{2 * PIECE}/{2 * PIECE + 1}', b'x'), 503)
        self.assertEqual(self.piece(session, f'{PIECE}-{2 * PIECE}/{2 * PIECE + 1}', b'x' * (PIECE + 1)), 200)
        self.assertEqual((self.piece(session, '*/*'), self.json['size']), (200, str(2 * PIECE + 1)))
        self.assertEqual([self.ask('PUT', other, b'loser') for _ in range(2)], [412, 412])
        self.assertEqual([self.ask(how, self.begin('s')) for how in ('DELETE', 'PUT')], [499, 200])

    def test_ranges_and_what_is_absent(self):
        self.write('d/r', b'0123456789')
        for given, status, size in ('2-4', 206, 3), ('7-', 206, 3), ('-3', 206, 3), ('8-99', 206, 2), ('x', 200, 10):
            self.assertEqual(self.ask('GET', f'{O}/d%2Fr?alt=media', headers={'Range': f'bytes={given}'}), status)
            self.assertEqual(len(self.body), size)
        self.assertEqual(self.ask('GET', f'{O}/d%2Fr?alt=media', headers={'Range': 'bytes=10-'}), 416)
        self.assertEqual((self.ask('GET', f'{O}/d%2Fn?alt=media'), self.body), (404, b'No such object: ckpt-test/d/n'))
        self.assertEqual((self.ask('GET', f'{O}/d%2Fn'), self.reason), (404, 'notFound'))
        self.assertEqual((self.ask('GET', f'{O}/d/r'), self.json), (404, {}))
        self.assertEqual((self.ask('GET', '/storage/v1/b/none/o/a'), self.reason), (404, 'notFound'))

    def test_lists_come_in_ordered_pages_of_names_and_prefixes(self):
        for name in 'l/b', 'l/a/1', 'l/a/2', 'l/c/1', 'l/d', 'l/é':
            self.write(name)
        seen, token = [], ''
        while token is not None:
            self.assertEqual(self.ask('GET', f'{O}?prefix=l/&delimiter=/&fields=items/name,items/generation,prefixes,'
                                             f'nextPageToken&pageToken={urllib.parse.quote(token)}'), 200)
            seen.append(self.json.get('prefixes', []) + [item['name'] for item in self.json.get('items', [])])
            token = self.json.get('nextPageToken')
        self.assertEqual(seen, [['l/a/', 'l/c/', 'l/b'], ['l/d', 'l/é']])

    def test_compose_takes_32_sources_that_are_what_was_said(self):
        self.write('p', b'ab')
        source = {'name': 'p', 'objectPreconditions': {'ifGenerationMatch': self.json['generation']}}
        order = {'sourceObjects': [source] * 32, 'destination': {'metadata': {'k': 'v'}}}
        self.assertEqual(self.ask('POST', f'{O}/c/compose?ifGenerationMatch=0', order), 200)
        self.assertEqual((self.json['componentCount'], self.json.get('md5Hash'), self.json['size']), (32, None, '64'))
        made = self.json['crc32c']
        self.assertEqual((self.write('whole', b'ab' * 32), self.json['crc32c']), (200, made))
        self.assertEqual(self.ask('POST', f'{O}/c/compose?ifGenerationMatch=0', order), 412)
        self.assertEqual(self.ask('POST', f'{O}/cc/compose', {'sourceObjects': [{'name': 'c'}, source]}), 200)
        self.assertEqual(self.ask('GET', f'{O}/cc?alt=media', None, {'Range': 'bytes=61-'}), 206)
        self.assertEqual(self.body, b'babab')
        self.write('q', b'c')
        order = {'sourceObjects': [{'name': 'c'}, {'name': 'q'}], 'deleteSourceObjects': True}
        self.assertEqual(self.ask('POST', f'{O}/c/compose?ifGenerationMatch=0', order), 412)
        self.assertEqual(self.ask('POST', f'{O}/c/compose', order), 200)
        self.assertEqual([self.ask('GET', f'{O}/{name}') for name in 'cq'], [200, 404])
        wrong = {'name': 'p', 'objectPreconditions': {'ifGenerationMatch': '7'}}
        for sources, status in ([source] * 33, 400), ([wrong], 412), ([{'name': 'p', 'generation': '7'}], 404):
            self.assertEqual(self.ask('POST', f'{O}/c/compose', {'sourceObjects': sources}), status)

    def test_a_rewrite_goes_on_by_its_token_and_copies_metadata_unless_told(self):
        self.ask('PUT', self.begin('from', '', {'metadata': {'k': 'v'}}), b'x' * (5 << 19))
        for body, metadata in (b'', {'k': 'v'}), ({'metadata': {'l': 'w'}}, {'l': 'w'}):
            calls, token = 0, ''
            while token is not None:
                self.assertEqual(self.ask('POST', f'{O}/from/rewriteTo/b/ckpt-test/o/to{token}', body), 200)
                calls, token = calls + 1, self.json.get('rewriteToken') and '?rewriteToken=' + self.json['rewriteToken']
            self.assertEqual((calls, self.json['resource']['metadata']), (3, metadata))
        self.assertEqual(self.ask('POST', f'{O}/from/copyTo/b/ckpt-test/o/to?ifSourceGenerationMatch=7'), 412)

    def test_held_objects_stay_and_faults_come_as_asked(self):
        self.write('held-by-policy')
        for status in self.write('held-by-policy'), self.ask('DELETE', f'{O}/held-by-policy'):
            self.assertEqual((status, self.reason), (403, 'retentionPolicyNotMet'))
        self.ask('POST', '/test/fail?status=429&count=2&match=name=f')
        self.assertEqual([self.write('g'), self.write('f'), self.write('f'), self.write('f')], [200, 429, 429, 200])
        self.ask('POST', '/test/fail?after=1')
        self.assertRaises(http.client.RemoteDisconnected, self.write, 'lost')
        self.assertEqual(self.ask('GET', f'{O}/lost'), 200)


if __name__ == '__main__':
    os.environ['CKPT_TEST_GCS_OPTIONS'] = '--page 3 --rewrite-bytes 1048576'
    os.execv(os.path.join(HERE, 'run.sh'), ['run.sh', sys.executable, '-B', '-m', 'unittest', 'discover', '-s', HERE,
                                            '-p', '*_test.py', *sys.argv[1:]])
