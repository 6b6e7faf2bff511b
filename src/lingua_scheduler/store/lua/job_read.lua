-- Read a job for the new owner of its session: {state, attempt, reservation, record, audio}, nil for what is not there.
-- KEYS: job audio
local known = redis.call('HMGET', job, 'state', 'attempt', 'reservation', 'record')
return {known[1], known[2], known[3], known[4], redis.call('GET', audio)}
