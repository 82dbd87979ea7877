-- The words of an item in one value: recall takes it as it is, where looking for each asked word in arrays cost
-- more than all the rest of a search by words. No release has written the counts that it takes the place of.

DROP VIEW memoryfs.all_tokens;

CREATE FUNCTION memoryfs.packed_words(hashes int8[], counts int2[]) RETURNS bytea
LANGUAGE sql STABLE
AS $$
    SELECT coalesce(string_agg(int8send(w.hash) || int2send(w.count), '' ORDER BY w.place), '')
    FROM unnest(hashes, counts) WITH ORDINALITY AS w (hash, count, place)
$$;

ALTER TABLE memoryfs.item_tokens ADD COLUMN words bytea;
UPDATE memoryfs.item_tokens SET words = memoryfs.packed_words(hashes, counts);
ALTER TABLE memoryfs.item_tokens ALTER COLUMN words SET NOT NULL, DROP COLUMN counts;
COMMENT ON COLUMN memoryfs.item_tokens.words IS
    'id: each of hashes in its order (8 bytes) and how often it occurs (2 bytes), big end first';

ALTER TABLE memoryfs.cold_tokens ADD COLUMN words bytea;
UPDATE memoryfs.cold_tokens SET words = memoryfs.packed_words(hashes, counts);
ALTER TABLE memoryfs.cold_tokens ALTER COLUMN words SET NOT NULL, DROP COLUMN counts;
COMMENT ON COLUMN memoryfs.cold_tokens.words IS
    'id: each of hashes in its order (8 bytes) and how often it occurs (2 bytes), big end first';

DROP FUNCTION memoryfs.packed_words(int8[], int2[]);

CREATE VIEW memoryfs.all_tokens WITH (security_invoker = true) AS
    SELECT * FROM memoryfs.item_tokens UNION ALL SELECT * FROM memoryfs.cold_tokens;
COMMENT ON VIEW memoryfs.all_tokens IS 'Words of hot and cold items.';
GRANT SELECT ON memoryfs.all_tokens TO memoryos_memoryfs;
