"""Writes net-<version>.pt: what a Python trainer saves, for files_test.cpp. Run by torch 1.13 and by 2.15; committed.

    python3 make_net.py FOLDER
"""
import os
import sys

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = torch.nn.Linear(5, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)

    def forward(self, x):
        return self.b(torch.relu(self.norm(self.a(x))))


def step(net, optimizer, x, y):
    optimizer.zero_grad()
    loss = (net(x) - y).pow(2).mean()
    loss.backward()
    optimizer.step()
    return loss.item()


torch.manual_seed(7)
torch.set_num_threads(1)
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01, betas=(0.8, 0.95), weight_decay=1e-3)
x, y = torch.randn(16, 5), torch.randn(16, 3)
for _ in range(5):
    step(net, optimizer, x, y)
# Saved before the next step, because a state_dict is a view of the live parameters.
state = {"model": {k: v.clone() for k, v in net.state_dict().items()}, "optimizer": optimizer.state_dict()}
state["model"] = type(net.state_dict())(state["model"])
state["optimizer"]["state"] = {
    k: {n: v.clone() if torch.is_tensor(v) else v for n, v in s.items()} for k, s in state["optimizer"]["state"].items()
}
state.update(x=x, y=y, epoch=5, losses=[step(net, optimizer, x, y) for _ in range(3)])
torch.save(state, os.path.join(sys.argv[1], "net-" + ".".join(torch.__version__.split(".")[:2]) + ".pt"))
