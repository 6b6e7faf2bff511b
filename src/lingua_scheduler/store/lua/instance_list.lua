-- Give the registry: the present in ms, then id and line of every instance that is known.
-- KEYS: registry
-- include: now_ms
return {now_ms(), redis.call('HGETALL', registry)}
