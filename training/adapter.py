"""Low-rank adapters (LoRA, Hu et al. 2021) on every linear layer of a model of Llama's form, by peft."""

from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict

LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def adapted(model, *, rank: int, alpha: int, dropout: float):
    """The model with an adapter that is trained; its own weights stay as they are."""
    config = LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules=LINEAR, task_type="CAUSAL_LM")
    return get_peft_model(model, config)


def weights(model) -> dict:
    """The adapter's tensors, and nothing of the model."""
    return get_peft_model_state_dict(model)


def set_weights(model, tensors: dict) -> None:
    """Put tensors of `weights` in the place of the adapter's."""
    set_peft_model_state_dict(model, tensors)
