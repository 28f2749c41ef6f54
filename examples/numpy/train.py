"""Data-parallel training that can be interrupted at any step and goes on bit for bit where it stopped."""

from __future__ import annotations

import os

# Several ranks share a machine; and sums must not depend on how many threads make them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import faults
import rtj
from allreduce import AllReduce
from model import adam, gradient, new_optimizer, new_parameters, pack, samples, unpack

STEPS = int(os.environ.get("TRAIN_STEPS", "200"))
STEP_SECONDS = float(os.environ.get("TRAIN_STEP_SECONDS", "0.05"))
SAMPLES = int(os.environ.get("TRAIN_SAMPLES", "512"))
BATCH = int(os.environ.get("TRAIN_BATCH", "32"))
SEED = int(os.environ.get("TRAIN_SEED", "1"))


def main() -> None:
    """Train STEPS steps, over as many attempts as it takes."""
    faults.before_start()
    job = rtj.start(store=os.environ.get("TRAIN_STORE", "./runs"), name="numpy-example", total_steps=STEPS)
    faults.after_start()

    x, y = samples(SAMPLES, SEED)
    parameters = new_parameters(SEED)
    optimizer = new_optimizer(parameters)
    noise = np.random.default_rng([SEED, 3, job.rank])
    sampler = job.sampler(SAMPLES, BATCH, seed=SEED)
    state = {"model": parameters, "optimizer": optimizer, "rng": {"noise": noise}, "data": sampler}
    state = job.restore(state)

    ranks = AllReduce(
        job.rank,
        job.world_size,
        job.attempt,
        leader=os.environ.get("RTJ_LEADER_ADDRESS") or "127.0.0.1",
        port=int(os.environ.get("MASTER_PORT", "29500")),
        own=os.environ.get("RTJ_POD_IP") or "127.0.0.1",
    )
    losses: list[str] = []
    try:
        for epoch in job.epochs(1 + STEPS // sampler.batches):
            if job.steps == STEPS:
                break
            for batch in sampler:
                inputs = x[batch] + noise.normal(0.0, 0.1, (len(batch), x.shape[1]))
                loss, grads = gradient(parameters, inputs, y[batch])
                faults.pause(STEP_SECONDS)
                loss, grads = unpack(ranks.sum(pack(loss, grads)) / BATCH, grads)
                adam(parameters, optimizer, grads)

                step = job.steps + 1
                losses.append(f"{step} {loss.hex()}\n")
                job.publish("losses.txt", "".join(losses).encode())
                if job.rank == 0 and step % 10 == 0:
                    print(f"epoch {epoch} step {step}/{STEPS} loss {loss:.6f}", flush=True)
                job.step(state=state, loss=loss)
                faults.after_step(job.rank, job.attempt, job.steps)
                if job.steps == STEPS:
                    break
        job.finish()
    finally:
        ranks.close()


if __name__ == "__main__":
    main()
