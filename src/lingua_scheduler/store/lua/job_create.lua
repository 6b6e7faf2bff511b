-- Claim (index, language) for a job and write it with its audio, placed on a node (attempt 1) or waiting (attempt 0).
-- A session that vanished from Redis while its owner lives is written anew.
-- Every so many indexes (kept), the claims of older ones are forgotten: the session's counter knows that they are used.
-- Returns {'fresh', job}, {'anew', job} when the session had to be written too, {'known', job} when the claim is taken, or {'fenced'} when the session has a newer owner.
-- KEYS: session claims open_jobs job audio
-- ARGV: owner epoch spoken session_ttl_ms index claim kept last_seq job_id state attempt node reservation record data job_ttl_ms
-- ARGV: affinity affinity_ttl_ms pool pair
-- include: now_ms
-- durable: promises 1 and 3
local known = redis.call('HMGET', session, 'owner', 'epoch', 'next_index', 'last_seq', 'spoken', 'timeout_node_id')
local current, mine = tonumber(known[2]), tonumber(epoch)
if current and (current > mine or current == mine and known[1] ~= owner) then
  return {'fenced'}
end
local changed = {}
local function change(name, value)
  changed[#changed + 1] = name
  changed[#changed + 1] = value
end
local function raise(name, before, value)
  if value ~= '' and tonumber(value) > (tonumber(before) or -1) then
    change(name, value)
  end
end
if current ~= mine then
  change('owner', owner)
  change('epoch', epoch)
end
if redis.call('HSETNX', claims, claim, job_id) == 0 then
  if #changed > 0 then
    redis.call('HSET', session, unpack(changed))
  end
  return {'known', redis.call('HGET', claims, claim)}
end
redis.call('PEXPIRE', claims, session_ttl_ms)
if index % kept == 0 then
  for _, name in ipairs(redis.call('HKEYS', claims)) do
    if tonumber(string.match(name, '^%d+') or 0) <= index - kept then
      redis.call('HDEL', claims, name)
    end
  end
end
redis.call('HSET', open_jobs, job_id, claim)
redis.call('PEXPIRE', open_jobs, session_ttl_ms)
redis.call('HSET', job, 'state', state, 'attempt', attempt, 'node', node, 'reservation', reservation, 'record', record)
redis.call('PEXPIRE', job, job_ttl_ms)
redis.call('SET', audio, data, 'PX', job_ttl_ms)
raise('next_index', known[3], index + 1)
raise('last_seq', known[4], last_seq)
raise('spoken', known[5], spoken)
if affinity ~= '' then
  change('timeout_node_id', affinity)
  change('timeout_node_until', now_ms() + affinity_ttl_ms)
elseif known[6] then
  redis.call('HDEL', session, 'timeout_node_id', 'timeout_node_until')
end
if pool ~= '' then
  change('preferred_pool', pool)
  change('last_lang_pair', pair)
end
if #changed > 0 then
  redis.call('HSET', session, unpack(changed))
end
if not current then
  redis.call('PEXPIRE', session, session_ttl_ms)
  return {'anew', job_id}
end
return {'fresh', job_id}
