-- What reads ask of the truth (adapters/matching_ids.py). /*filter*/ is replaced by what adapters/sql_filters.py
-- makes of a filter; its parameters are f0, f1, …

-- name: matching_ids
-- By the truth: readable (row-level security), in one of these states, served now, below the clearance, under the filter.
SELECT id
FROM memoryfs.items
WHERE tenant = %(tenant)s
    AND path_id = ANY (%(path_ids)s::int4[])
    AND state = ANY (%(states)s::int2[])
    AND tier = ANY (%(tiers)s::int2[])
    AND (%(owner)s::int4 IS NULL OR owner = %(owner)s::int4)
    AND (expire_time IS NULL OR expire_time > %(now)s)
    AND sensitivity <= %(clearance)s
    AND (%(valid_at)s::timestamptz IS NULL
        OR (valid_from <= %(valid_at)s AND (valid_to IS NULL OR valid_to > %(valid_at)s)))
    AND /*filter*/
    AND (create_time, id) < (%(before_time)s, %(before_id)s)
ORDER BY create_time DESC, id DESC
LIMIT %(limit)s;
