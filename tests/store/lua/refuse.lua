-- Answer with an error that means: what is stored is not of this version.
-- KEYS: key
return redis.error_reply('CORRUPT unknown version')
