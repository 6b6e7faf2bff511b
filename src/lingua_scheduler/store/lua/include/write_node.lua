-- Write what placement and people know of a node and renew its lease.
local function write_node(node, leases, id, fields, lease_ms)
  redis.call('HSET', node, unpack(fields))
  redis.call('PEXPIRE', node, lease_ms)
  redis.call('ZADD', leases, now_ms() + lease_ms, id)
end
