-- Remove keys that were revoked, or have expired, longer than keep_ms ago.
local function drop_over(auth_keys, now, keep_ms)
  local flat = redis.call('HGETALL', auth_keys)
  for i = 1, #flat, 2 do
    local expires, revoked = flat[i + 1]:match('^%d+ (%d+) (%d+) ')
    for _, over in ipairs({tonumber(expires) or 0, tonumber(revoked) or 0}) do
      if over > 0 and over + tonumber(keep_ms) < now then
        redis.call('HDEL', auth_keys, flat[i])
      end
    end
  end
end
