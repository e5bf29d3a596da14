-- What a header says in numbers: of a CKKS key, what it is for and up to which level, of a CKKS ciphertext its level, slots
-- and scale. Eight 4-byte integers, little-endian; null in rows of earlier versions, which have no such objects.
ALTER TABLE blobs ADD COLUMN dimensions BLOB;
