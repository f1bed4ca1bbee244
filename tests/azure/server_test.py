#!/usr/bin/env python3
"""The rules that the test server keeps, each by Microsoft's own client, or by requests that it would not make.

server_test.py [-v]: starts the server by run.sh, and runs these tests, options_test.py and tokens_test.py; needs
azure-storage-blob and azure-storage-extensions (its CRC64).
"""
import base64, datetime, email.utils, http.client, json, os, subprocess, sys, time, unittest, urllib.parse
import urllib.request

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import (BlobBlock, BlobServiceClient, ContainerClient, generate_account_sas,
                                generate_blob_sas, generate_container_sas)

HERE = os.path.dirname(os.path.abspath(__file__))
PIECE, VERSION = 1 << 20, '2021-12-02'
IF_SAME, IF_MISSING = MatchConditions.IfNotModified, MatchConditions.IfMissing


class Client:
    """One who asks a server, by Microsoft's client (self.container) and by requests of its own (ask)."""
    def setUp(self):
        self.open(os.environ['AZURE_STORAGE_CONNECTION_STRING'])

    def open(self, connection, container='ckpt-test'):
        self.service = BlobServiceClient.from_connection_string(connection, max_single_put_size=PIECE,
                                                                max_block_size=PIECE, retry_total=0)
        self.container, self.key = self.service.get_container_client(container), self.service.credential.account_key
        self.base = urllib.parse.urlsplit(self.service.url)
        self.sas = generate_account_sas(self.service.account_name, self.key, 'sco', 'rwdlac', after(3600))

    def signed(self, permissions='r', blob=None, seconds=3600, key=None):
        """What a signature adds to an address."""
        names = (self.service.account_name, self.container.container_name) + ((blob,) if blob else ())
        make = generate_blob_sas if blob else generate_container_sas
        return make(*names, account_key=key or self.key, permission=permissions, expiry=after(seconds))

    def by_signature(self, *arguments, **more):
        return ContainerClient(self.service.url, self.container.container_name, self.signed(*arguments, **more))

    def ask(self, method, path='', query='', headers=(), body=b'', sas=None):
        """The status and the code of what is answered to a request with an account's signature, or `sas`."""
        connection = http.client.HTTPConnection(self.base.netloc)
        query = '&'.join(part for part in (query, self.sas if sas is None else sas) if part)
        path = f'{self.base.path.rstrip("/")}/{self.container.container_name}{path}?{query}'
        connection.request(method, path, body, {'x-ms-version': VERSION, **dict(headers)})
        answer = connection.getresponse()
        self.headers, self.body = answer.headers, answer.read()
        connection.close()
        return answer.status, answer.headers.get('x-ms-error-code')

    def play(self, what):
        urllib.request.urlopen(f'http://{self.base.netloc}/test/{what}', b'').close()

    def refused(self, call, *arguments, **more):
        """The status and the code of the refusal that a call of Microsoft's client meets."""
        try:
            call(*arguments, **more)
        except HttpResponseError as error:
            return error.status_code, getattr(error.error_code, 'value', error.error_code)
        return None

    def blob(self, name, data=None, **more):
        found = self.container.get_blob_client(name)
        if data is not None:
            self.written = found.upload_blob(data, overwrite=True, **more)
        return found


def after(seconds):
    return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)


def blocks(*names):
    return [BlobBlock(name) for name in names]


def xml_of(*names, kind='Latest'):
    items = ''.join(f'<{kind}>{base64.b64encode(name.encode()).decode()}</{kind}>' for name in names)
    return f'<?xml version="1.0" encoding="utf-8"?><BlockList>{items}</BlockList>'.encode()


class Rules(Client, unittest.TestCase):
    def test_a_condition_that_does_not_hold_changes_nothing(self):
        blob = self.blob('a', b'one')
        etag = {'etag': self.written['etag'], 'match_condition': IF_SAME}
        self.assertEqual(self.refused(blob.upload_blob, b'two'), (409, 'BlobAlreadyExists'))
        self.blob('a', b'two', **etag)
        for call in (lambda: blob.upload_blob(b'three', overwrite=True, **etag), lambda: blob.delete_blob(**etag),
                     lambda: blob.download_blob(**etag), lambda: blob.set_blob_metadata({'k': 'v'}, **etag),
                     lambda: blob.get_blob_properties(**etag), lambda: blob.commit_block_list([], **etag)):
            self.assertEqual(self.refused(call)[0], 412)
        self.assertEqual(blob.download_blob().readall(), b'two')
        self.assertEqual(self.ask('GET', '/a', headers={'If-None-Match': self.written['etag']})[0], 304)
        moment = email.utils.formatdate(time.time() - 60, usegmt=True)
        self.assertEqual(self.ask('GET', '/a', headers={'If-Unmodified-Since': moment}), (412, 'ConditionNotMet'))
        blob.delete_blob()
        self.assertEqual(self.refused(blob.delete_blob), (404, 'BlobNotFound'))
        put = {'x-ms-blob-type': 'BlockBlob', 'If-Match': '*'}
        self.assertEqual(self.ask('PUT', '/a', headers=put), (412, 'ConditionNotMet'))

    def test_absence_names_what_is_absent(self):
        self.assertEqual(self.refused(self.blob('none').download_blob), (404, 'BlobNotFound'))
        self.assertEqual(self.ask('HEAD', '/none'), (404, 'BlobNotFound'))
        self.assertEqual(self.ask('GET', '/none'), (404, 'BlobNotFound'))
        self.assertTrue(self.body.startswith('\ufeff<?xml'.encode()), self.body)
        self.container = self.service.get_container_client('none')
        self.assertEqual(self.refused(self.blob('none').download_blob), (404, 'ContainerNotFound'))
        self.assertEqual(self.refused(lambda: list(self.container.list_blobs())), (404, 'ContainerNotFound'))
        self.container.create_container()
        self.assertEqual(self.refused(self.container.create_container), (409, 'ContainerAlreadyExists'))
        self.assertIn('x-ms-request-id', self.headers)

    def test_a_wrong_checksum_is_400_and_leaves_no_blob(self):
        put, other = {'x-ms-blob-type': 'BlockBlob'}, base64.b64encode(b'x' * 16).decode()
        for query in '', 'comp=block&blockid=AAAA', 'comp=blocklist':
            for header, value, code in (('Content-MD5', other, 'Md5Mismatch'), ('Content-MD5', 'x', 'InvalidMd5'),
                                        ('x-ms-content-crc64', other[:11] + '=', 'Crc64Mismatch'),
                                        ('x-ms-content-crc64', 'AAAA', 'InvalidHeaderValue')):
                self.assertEqual(self.ask('PUT', '/sum', query, {**put, header: value}, b'123456789'), (400, code))
        both = {**put, 'Content-MD5': other, 'x-ms-content-crc64': other}
        self.assertEqual(self.ask('PUT', '/sum', '', both, b'x'), (400, 'BothCrc64AndMd5HeaderPresent'))
        self.assertEqual(self.ask('HEAD', '/sum'), (404, 'BlobNotFound'))
        right = {'x-ms-content-crc64': 'iJh5CoYUi64='}
        self.assertEqual(self.ask('PUT', '/sum', '', {**put, **right}, b'123456789')[0], 201)
        self.assertEqual(self.headers['Content-MD5'], 'JfnnlDI7RTiF9RgfG2JNCw==')
        self.assertEqual(self.headers['x-ms-content-crc64'], right['x-ms-content-crc64'])

    def test_microsofts_client_checks_what_it_writes_and_reads(self):
        data = os.urandom(2 * PIECE + 7)
        for how in 'md5', 'crc64':
            blob = self.blob('checked', data, validate_content=how)
            self.assertEqual(blob.download_blob(5, PIECE, validate_content='md5').readall(), data[5:PIECE + 5])
            self.assertEqual(blob.download_blob().readall(), data)
            self.blob('checked', data[:9], validate_content=how)
        for name, answered in ('md5', 'Content-MD5'), ('crc64', 'x-ms-content-crc64'):
            asked = {f'x-ms-range-get-content-{name}': 'true'}
            self.assertEqual(self.ask('GET', '/checked', headers={**asked, 'Range': 'bytes=1-3'})[0], 206)
            self.assertIn(answered, self.headers)
            self.assertEqual(self.ask('GET', '/checked', headers=asked), (400, 'InvalidHeaderValue'))
            self.blob('long', bytes(5 << 20))
            asked['x-ms-range'] = 'bytes=0-4194304'
            self.assertEqual(self.ask('GET', '/long', headers=asked), (400, 'OutOfRangeInput'))

    def test_blocks_belong_to_the_name_and_go_when_it_is_put(self):
        mine, theirs = self.blob('b'), self.blob('b')
        mine.stage_block('01', b'mine')
        mine.stage_block('02', b'!')
        theirs.stage_block('01', b'theirs')
        self.assertEqual(self.refused(mine.stage_block, '0001', b'x'), (400, 'InvalidBlobOrBlock'))
        self.assertEqual(self.refused(mine.download_blob), (404, 'BlobNotFound'))
        self.assertEqual(self.refused(mine.upload_blob, b'x'), (409, 'BlobAlreadyExists'))
        self.assertEqual(self.refused(mine.commit_block_list, blocks('01', '03')), (400, 'InvalidBlockList'))
        mine.commit_block_list(blocks('01', '02', '01'), metadata={'k': 'v'}, match_condition=IF_MISSING)
        self.assertEqual(mine.download_blob().readall(), b'theirs!theirs')
        self.assertEqual(mine.get_blob_properties().metadata, {'k': 'v'})
        theirs.stage_block('03', b'late')
        self.assertEqual(self.refused(theirs.commit_block_list, blocks('03'), match_condition=IF_MISSING),
                         (409, 'BlobAlreadyExists'))
        theirs.commit_block_list(blocks('02', '03'))
        self.assertEqual(theirs.download_blob().readall(), b'!late')
        self.assertEqual([[block.id for block in found] for found in theirs.get_block_list('all')], [['02', '03'], []])
        theirs.stage_block('04', b'gone')
        self.blob('b', b'whole')
        self.assertEqual(self.refused(theirs.commit_block_list, blocks('04')), (400, 'InvalidBlockList'))

    def test_block_lists_and_ids_must_be_well_formed(self):
        for block in '', 'A', 'A!==':
            self.assertEqual(self.ask('PUT', '/f', f'comp=block&blockid={block}', body=b'x'),
                             (400, 'InvalidQueryParameterValue'))
        self.assertEqual(self.ask('PUT', '/f', 'comp=block&blockid=AAAA'), (400, 'InvalidHeaderValue'))
        for body in b'', b'<BlockList>', b'<List/>', b'<BlockList><Newest>AAAA</Newest></BlockList>':
            self.assertEqual(self.ask('PUT', '/f', 'comp=blocklist', body=body), (400, 'InvalidXmlDocument'))
        many = xml_of(*['01'] * 50_001)
        self.assertEqual(self.ask('PUT', '/f', 'comp=blocklist', body=many), (400, 'BlockListTooLong'))
        self.assertEqual(self.ask('PUT', '/f', 'comp=block&blockid=MDE=', body=b'x')[0], 201)
        for kind, status in ('Committed', 400), ('Uncommitted', 201), ('Uncommitted', 400), ('Committed', 201):
            self.assertEqual(self.ask('PUT', '/f', 'comp=blocklist', body=xml_of('01', kind=kind))[0], status)

    def test_ranges_begin_within_the_blob(self):
        self.blob('r', b'0123456789')
        for given, status, size in ('2-4', 206, 3), ('7-', 206, 3), ('8-99', 206, 2), ('4-2', 200, 10), ('x', 200, 10):
            self.assertEqual(self.ask('GET', '/r', headers={'Range': f'bytes={given}'})[0], status)
            self.assertEqual(len(self.body), size)
        self.assertEqual(self.ask('GET', '/r', headers={'Range': 'bytes=10-'}), (416, 'InvalidRange'))
        self.ask('GET', '/r', headers={'Range': 'bytes=0-1', 'x-ms-range': 'bytes=2-3'})
        self.assertEqual((self.body, self.headers['Content-Range']), (b'23', 'bytes 2-3/10'))
        self.assertEqual((self.ask('HEAD', '/r')[0], self.headers['Content-Length']), (200, '10'))

    def test_metadata_has_names_of_identifiers_and_keeps_their_case(self):
        blob = self.blob('m', b'x', metadata={'ckptPut': 'a', '_1': 'b'})
        self.assertEqual(blob.get_blob_properties().metadata, {'ckptPut': 'a', '_1': 'b'})
        etag = blob.get_blob_properties().etag
        blob.set_blob_metadata({'k': 'v'})
        self.assertNotEqual(blob.get_blob_properties().etag, etag)
        self.assertEqual(self.refused(blob.set_blob_metadata, {'a-b': 'c'}), (400, 'InvalidMetadata'))
        self.assertEqual(self.refused(blob.set_blob_metadata, {'a': 'b' * 8192}), (400, 'MetadataTooLarge'))

    def test_lists_come_in_ordered_pages_of_names_and_prefixes(self):
        for name in 'l/b', 'l/a/1', 'l/a/2', 'l/c/1', 'l/d', 'l/é&< +%', 'l/\x01':
            self.blob(name, b'x', metadata={'k': 'v&'})
        self.blob('l/staged').stage_block('01', b'x')
        seen = [[item.name for item in page] for page in self.container.walk_blobs('l/').by_page()]
        # Microsoft's client shows the prefixes of a page first.
        self.assertEqual([page for page in seen if page], [['l/a/', 'l/\x01', 'l/b'], ['l/c/', 'l/d', 'l/é&< +%']])
        self.assertEqual([bool(page) for page in seen], [False, True, False, True])
        found = {item.name: item for item in self.container.list_blobs('l/', include=['metadata', 'uncommittedblobs'])}
        self.assertEqual((len(found), found['l/d'].metadata, found['l/staged'].size), (8, {'k': 'v&'}, 0))
        self.assertEqual(found['l/d'].content_settings.content_md5, found['l/b'].content_settings.content_md5)
        self.assertEqual(self.ask('GET', '', 'restype=container&comp=list&maxresults=0'),
                         (400, 'OutOfRangeQueryParameterValue'))
        self.assertEqual(self.ask('GET', '', 'comp=list'), (400, 'InvalidQueryParameterValue'))

    def test_a_copy_needs_leave_to_read_its_source(self):
        source, target = self.blob('from', b'0123456789', metadata={'k': 'v'}), self.blob('to')
        self.assertEqual(self.refused(target.start_copy_from_url, source.url, requires_sync=True),
                         (401, 'CannotVerifyCopySource'))
        url, etag = f'{source.url}?{self.signed("r")}', self.written['etag']
        target.start_copy_from_url(url, requires_sync=True, source_etag=etag, source_match_condition=IF_SAME)
        self.assertEqual(target.get_blob_properties().metadata, {'k': 'v'})
        copy = {'x-ms-copy-source': url, 'x-ms-requires-sync': 'true'}
        for more, answer in (({'If-None-Match': '*'}, (409, 'BlobAlreadyExists')),
                             ({'x-ms-source-if-match': '"7"'}, (412, 'SourceConditionNotMet')),
                             ({'x-ms-copy-source': url.replace('/from', '/none')}, (404, 'CannotVerifyCopySource')),
                             ({'x-ms-source-content-md5': 'x'}, (400, 'InvalidMd5')),
                             ({'x-ms-meta-l': 'w'}, (202, None))):
            self.assertEqual(self.ask('PUT', '/to', '', {**copy, **more}), answer)
        self.assertEqual(target.get_blob_properties().metadata, {'l': 'w'})
        self.blob('from', bytes(PIECE + 1))
        self.assertEqual(self.ask('PUT', '/to', '', copy), (409, 'CannotVerifyCopySource'))
        target.start_copy_from_url(source.url)  # Copy Blob takes any size, and its own key for the source
        self.assertEqual(target.get_blob_properties().size, PIECE + 1)

    def test_a_block_may_come_from_a_url(self):
        source, target = self.blob('from', b'0123456789'), self.blob('joined')
        target.stage_block_from_url('01', source.url, 2, 3, source_authorization=f'Bearer {self.token()}')
        target.stage_block_from_url('02', f'{source.url}?{self.signed("r", "from")}')
        target.commit_block_list(blocks('01', '02'))
        self.assertEqual(target.download_blob().readall(), b'2340123456789')
        self.assertEqual(self.refused(target.stage_block_from_url, '01', source.url), (401, 'CannotVerifyCopySource'))
        url = f'{source.url}?{self.sas}'
        self.assertEqual(self.refused(target.stage_block_from_url, '01', url, 99, 3), (416, 'InvalidRange'))
        self.assertEqual(self.refused(target.stage_block_from_url, '01', url, source_content_md5=bytes(16)),
                         (400, 'Md5Mismatch'))

    def test_a_key_a_signature_or_a_token_is_needed_unless_the_container_is_public(self):
        self.blob('k', b'x')
        wrong = BlobServiceClient(self.service.url, {'account_name': self.service.account_name,
                                                     'account_key': base64.b64encode(b'x' * 64).decode()})
        self.assertEqual(self.refused(wrong.get_blob_client('ckpt-test', 'k').download_blob),
                         (403, 'AuthenticationFailed'))
        bearer = {'Authorization': f'Bearer {self.token()}'}
        self.assertEqual(self.ask('GET', '/k', headers=bearer, sas=''), (200, None))
        for headers, answer in (({'Authorization': 'Bearer x'}, (401, 'InvalidAuthenticationInfo')),
                                ({'Authorization': 'Basic x'}, (401, 'InvalidAuthenticationInfo')),
                                ({**bearer, 'x-ms-version': ''}, (400, 'MissingRequiredHeader')),
                                ({**bearer, 'x-ms-version': '2021-12-03'}, (400, 'InvalidHeaderValue')),
                                ({}, (401, 'NoAuthenticationInformation')),
                                ({'x-ms-version': '2019-07-07'}, (404, 'ResourceNotFound'))):
            self.assertEqual(self.ask('GET', '/k', headers=headers, sas=''), answer)
        self.container = self.service.create_container('public', public_access='blob')
        self.blob('p', b'x')
        for path, query, status in ('/p', '', 200), ('/q', '', 404), ('', 'restype=container&comp=list', 401):
            self.assertEqual(self.ask('GET', path, query, sas='')[0], status)
        self.container.delete_container()

    def test_a_request_signed_by_a_wrong_clock_is_refused(self):
        moment = email.utils.formatdate(time.time() - 16 * 60, usegmt=True)
        headers = {'x-ms-date': moment, 'Authorization': 'SharedKey devstoreaccount1:x'}
        self.assertEqual(self.ask('GET', '/k', headers=headers, sas=''), (403, 'AuthenticationFailed'))
        self.assertIn(b'Request date header too old', self.body)
        self.assertIn('Date', self.headers)

    def test_a_signature_allows_what_it_says_until_it_ends(self):
        self.blob('s', b'x')
        mismatch, failed = (403, 'AuthorizationPermissionMismatch'), (403, 'AuthenticationFailed')
        reader = self.by_signature('r')
        self.assertEqual(reader.download_blob('s').readall(), b'x')
        self.assertEqual(self.refused(reader.delete_blob, 's'), mismatch)
        self.assertEqual(self.refused(reader.upload_blob, 's', b'x', overwrite=True), mismatch)
        self.assertEqual(self.refused(lambda: list(reader.list_blobs())), mismatch)
        self.assertTrue(list(self.by_signature('l').list_blobs('s')))
        creator = self.by_signature('c')
        self.assertEqual(self.refused(creator.upload_blob, 's', b'y', overwrite=True),
                         (403, 'UnauthorizedBlobOverwrite'))
        creator.upload_blob('fresh', b'y')
        self.by_signature('rwdl').delete_blob('fresh')
        other = base64.b64encode(b'x' * 64).decode()
        for more in {'seconds': -1}, {'key': other}, {'blob': 'other'}:
            self.assertEqual(self.refused(self.by_signature('r', **more).download_blob, 's'), failed)
        self.assertEqual(self.ask('GET', '/s', sas=self.sas.replace('srt=sco', 'srt=s')), failed)
        self.assertEqual(self.ask('GET', '', 'restype=container', sas=self.signed('r')), mismatch)

    def test_held_blobs_stay(self):
        blob = self.blob('held-by-policy', b'x')
        for call in blob.delete_blob, lambda: blob.upload_blob(b'y', overwrite=True):
            self.assertEqual(self.refused(call), (409, 'BlobImmutableDueToPolicy'))

    def test_failures_come_as_asked(self):
        self.play('fail?status=503&count=2&match=comp=list')
        ask = lambda: self.ask('GET', '', 'restype=container&comp=list')
        self.assertEqual(self.ask('GET', '', 'restype=container')[0], 200)
        self.assertEqual([ask(), ask(), ask()], [(503, 'ServerBusy')] * 2 + [(200, None)])
        self.play('fail?status=500')
        self.assertEqual(ask(), (500, 'InternalError'))
        self.play('fail?after=1')
        put = {'x-ms-blob-type': 'BlockBlob'}
        self.assertRaises(http.client.RemoteDisconnected, self.ask, 'PUT', '/lost', '', put)
        self.assertEqual(self.ask('HEAD', '/lost'), (200, None))

    def token(self):
        address = f'http://{self.base.netloc}/msi/token?api-version=2019-08-01&resource=https://storage.azure.com'
        asked = urllib.request.Request(address, headers={'X-IDENTITY-HEADER': 'identity-secret'})
        with urllib.request.urlopen(asked) as answer:
            return json.load(answer)['access_token']


if __name__ == '__main__':
    for options, pattern in (('--page 3 --empty-pages --copy-bytes 1048576', '[st]*_test.py'),
                             ('--hierarchical --rarer-answers', 'options_test.py')):
        os.environ['CKPT_TEST_AZURE_OPTIONS'] = options
        command = [os.path.join(HERE, 'run.sh'), sys.executable, '-B', '-m', 'unittest', 'discover', '-s', HERE]
        if subprocess.run([*command, '-p', pattern, *sys.argv[1:]], check=False).returncode:
            sys.exit(1)
