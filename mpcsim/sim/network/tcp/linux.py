from mpcsim.sim.network.tcp import receiver
from mpcsim.sim.network.tcp.compiled import compiled


@compiled
def send(w, h, now):
    pass


@compiled
def sample(w, h, m):
    pass


@compiled
def acknowledge(w, h, now, ack, count, holes, echo, kind):
    pass


@compiled
def arrive(w, d, now, i):
    receiver.arrive(w, d, now, i)


@compiled
def delayed(w, h):
    pass


@compiled
def expire(w, h, now):
    pass
