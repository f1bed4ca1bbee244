"""Zoo: what trainers save. Each function gives one object to save."""
import argparse
import collections
import copy

from quick_torch import torch
from torch import nn, optim

import zoo_classes as classes

OPTIMIZERS = {"SGD": dict(lr=0.1), "SGD_momentum": dict(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
              "Adam": dict(lr=1e-3), "Adam_amsgrad": dict(lr=1e-3, amsgrad=True, betas=(0.8, 0.95)),
              "AdamW": dict(lr=1e-3),
              "Adagrad": dict(lr=0.01), "RMSprop": dict(lr=0.01, momentum=0.5, centered=True), "LBFGS": dict(lr=0.5),
              "Adadelta": {}, "Adamax": {}, "ASGD": {}, "NAdam": {}, "RAdam": {}, "Rprop": {}}


def trained(model, kind, inputs, steps=3):
    """The optimizer after a few steps, so that it has its state."""
    optimizer = getattr(optim, kind.split("_")[0])(model.parameters(), **OPTIMIZERS[kind])

    def closure():
        optimizer.zero_grad()
        loss = model(inputs).float().pow(2).mean()
        loss.backward()
        return loss
    for _ in range(steps):
        optimizer.step(closure)
    return optimizer


def small():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))


def optimizer(kind):
    return trained(small(), kind, torch.ones(5, 4)).state_dict()


def optimizer_of_two_groups():
    model = small()
    made = optim.SGD([{"params": model[0].parameters(), "lr": 0.5, "name": "low"}, {"params": model[2].parameters()}],
                     lr=0.1, momentum=0.9)
    model(torch.ones(2, 4)).sum().backward()
    made.step()
    return made.state_dict()


def fresh_optimizer():
    return optim.Adam(small().parameters()).state_dict()


def state_dict():
    return classes.Net().state_dict()


def tied_state_dict():
    return classes.Tied().state_dict()


def transformer_state_dict():
    return nn.TransformerEncoderLayer(8, 2, 16).state_dict()


def half_state_dict():
    return small().bfloat16().state_dict()


def plain_dict_of_tensors():
    return dict(classes.Net().state_dict())


def checkpoint():
    model = classes.Tied()
    ids = torch.arange(6).reshape(2, 3) % 7
    adam = trained(model, "Adam", ids)
    scheduler = optim.lr_scheduler.StepLR(adam, 2)
    adam.step()
    scheduler.step()
    return {"model": model.state_dict(), "opt": adam.state_dict(), "scheduler": scheduler.state_dict(), "epoch": 3,
            "best": 0.25, "losses": [1.0, 0.5], "args": argparse.Namespace(lr=1e-3), "rng": torch.get_rng_state()}


def lightning_like():
    model = small()
    callbacks = {"ModelCheckpoint{'monitor': 'loss'}": {"best": torch.tensor(0.5), "path": None}}
    return {"epoch": 1, "global_step": 10, "pytorch-lightning_version": "2.1", "state_dict": model.state_dict(),
            "loops": {"fit_loop": {"state_dict": {}, "epoch_progress": {"total": {"ready": 1}}}},
            "callbacks": callbacks,
            "optimizer_states": [trained(model, "AdamW", torch.ones(2, 4)).state_dict()], "lr_schedulers": [],
            "hyper_parameters": collections.OrderedDict(lr=1e-3, sizes=(4, 3))}


def with_gradients():
    model = small()
    model(torch.ones(2, 4)).sum().backward()
    return {name: parameter for name, parameter in model.named_parameters()}


def module():
    return classes.Net()


def tied_module():
    return classes.Tied()


def library_module():
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Dropout(0.1), nn.ModuleList([nn.ReLU()]),
                         nn.ParameterDict({"a": nn.Parameter(torch.ones(2))}))


def list_of_modules():
    model = small()
    return [model, copy.deepcopy(model), model[0]]


def whole_optimizer():
    return trained(small(), "Adam", torch.ones(2, 4))


def averaged_model():
    return optim.swa_utils.AveragedModel(small()).state_dict()


def gradient_scaler():
    return torch.cuda.amp.GradScaler(enabled=False).state_dict()
