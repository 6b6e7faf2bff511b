-- Count a run in a list, so that a test sees how often it ran.
-- KEYS: runs
-- ARGV: mark
redis.call('RPUSH', runs, mark)
redis.call('EXPIRE', runs, 60)
return redis.call('LLEN', runs)
