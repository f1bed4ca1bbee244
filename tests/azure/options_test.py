"""An account with directories, and the rarer answers of the service. server_test.py runs it."""
import unittest

from server_test import IF_MISSING, Client, blocks


class Options(Client, unittest.TestCase):
    def test_a_directory_is_an_entry_that_goes_when_it_is_empty(self):
        blob = self.blob('d/e/f', b'x')
        self.assertTrue(self.service.get_account_information()['is_hns_enabled'])
        found = {item.name: item.metadata for item in self.container.list_blobs('d', include=['metadata'])}
        folder = {'hdi_isfolder': 'true'}
        self.assertEqual(found, {'d': folder, 'd/e': folder, 'd/e/f': None})
        self.assertEqual([item.name for item in self.container.walk_blobs('d')], ['d/'])
        self.assertEqual((self.ask('HEAD', '/d/e')[0], self.headers['x-ms-resource-type']), (200, 'directory'))
        self.assertEqual(self.refused(self.blob('d/e').delete_blob), (409, 'DirectoryIsNotEmpty'))
        for call in lambda: self.blob('d/e', b'x'), lambda: self.blob('d/e/f/g', b'x'):
            self.assertEqual(self.refused(call), (409, 'ResourceTypeMismatch'))
        for name in 'd/e/f', 'd/e', 'd':
            self.blob(name).delete_blob()
        self.assertEqual(list(self.container.list_blobs('d')), [])
        self.assertEqual(self.refused(blob.download_blob), (404, 'BlobNotFound'))

    def test_whoever_lost_a_race_may_hear_412_or_that_its_blocks_are_gone(self):
        self.blob('r').stage_block('01', b'x')
        self.blob('r', b'y')
        put = {'x-ms-blob-type': 'BlockBlob', 'If-None-Match': '*'}
        self.assertEqual(self.ask('PUT', '/r', headers=put), (412, 'ConditionNotMet'))
        lost = self.refused(self.blob('r').commit_block_list, blocks('01'), match_condition=IF_MISSING)
        self.assertEqual(lost, (400, 'InvalidBlockList'))
